# Completion of pk-delete-records for fish; made by scripts/regenerate.py.
complete -c pk-delete-records -f
complete -c pk-delete-records -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-delete-records -l debug -d 'Show the traceback of a failure.'
complete -c pk-delete-records -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-delete-records -l profile -x -a '(pk-completions names profiles (commandline -opc) 2>/dev/null)' -d 'Settings by name, of .pkafka.toml.'
complete -c pk-delete-records -l show-config -d 'Show the client\'s settings and where they come from; do nothing.'
complete -c pk-delete-records -l command-config -r -F -d 'Properties file for the client.'
complete -c pk-delete-records -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-delete-records -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text in a pipe, a table on a terminal.'
complete -c pk-delete-records -l offset-json-file -r -F -d 'Partitions and offsets, as JSON.'
complete -c pk-delete-records -l dry-run -d 'Say what would be deleted, and delete nothing.'
complete -c pk-delete-records -l yes -d 'Ask nothing. Without it, on a terminal, the command says what it would delete, and asks.'
complete -c pk-delete-records -s h -l help -d 'Show this message and exit.'
