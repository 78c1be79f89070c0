# Completion of pk-log-dirs for fish; made by scripts/regenerate.py.
complete -c pk-log-dirs -f
complete -c pk-log-dirs -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-log-dirs -l debug -d 'Show the traceback of a failure.'
complete -c pk-log-dirs -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-log-dirs -l profile -x -a '(pk-completions names profiles (commandline -opc) 2>/dev/null)' -d 'Settings by name, of .pkafka.toml.'
complete -c pk-log-dirs -l show-config -d 'Show the client\'s settings and where they come from; do nothing.'
complete -c pk-log-dirs -l command-config -r -F -d 'Properties file for the client.'
complete -c pk-log-dirs -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-log-dirs -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text in a pipe, a table on a terminal.'
complete -c pk-log-dirs -l describe -d 'Describe the log directories.'
complete -c pk-log-dirs -l broker-list -x -a '(pk-completions names brokers (commandline -opc) 2>/dev/null)' -d 'Brokers to ask; all when left out.'
complete -c pk-log-dirs -l topic-list -x -a '(pk-completions names topics (commandline -opc) 2>/dev/null)' -d 'Topics to show; all when left out.'
complete -c pk-log-dirs -s h -l help -d 'Show this message and exit.'
