# Completion of pk-broker-api-versions for fish; made by scripts/regenerate.py.
complete -c pk-broker-api-versions -f
complete -c pk-broker-api-versions -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-broker-api-versions -l debug -d 'Show the traceback of a failure.'
complete -c pk-broker-api-versions -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-broker-api-versions -l profile -x -a '(pk-completions names profiles (commandline -opc) 2>/dev/null)' -d 'Settings by name, of .pkafka.toml.'
complete -c pk-broker-api-versions -l show-config -d 'Show the client\'s settings and where they come from; do nothing.'
complete -c pk-broker-api-versions -l command-config -r -F -d 'Properties file for the client.'
complete -c pk-broker-api-versions -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-broker-api-versions -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text in a pipe, a table on a terminal.'
complete -c pk-broker-api-versions -s h -l help -d 'Show this message and exit.'
