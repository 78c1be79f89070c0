# Completion of pk-doctor for fish; made by scripts/regenerate.py.
complete -c pk-doctor -f
complete -c pk-doctor -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-doctor -l debug -d 'Show the traceback of a failure.'
complete -c pk-doctor -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-doctor -l profile -x -a '(pk-completions names profiles (commandline -opc) 2>/dev/null)' -d 'Settings by name, of .pkafka.toml.'
complete -c pk-doctor -l show-config -d 'Show the client\'s settings and where they come from; do nothing.'
complete -c pk-doctor -l command-config -r -F -d 'Properties file for the client.'
complete -c pk-doctor -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-doctor -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text in a pipe, a table on a terminal.'
complete -c pk-doctor -l security -d 'Go the way of a client: TCP, TLS, name, mechanism, login, rights.'
complete -c pk-doctor -l topic -x -a '(pk-completions names topics (commandline -opc) 2>/dev/null)' -d 'Look at the rights on this topic, too.'
complete -c pk-doctor -s h -l help -d 'Show this message and exit.'
