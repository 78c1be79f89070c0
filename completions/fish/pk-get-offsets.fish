# Completion of pk-get-offsets for fish; made by scripts/regenerate.py.
complete -c pk-get-offsets -f
complete -c pk-get-offsets -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-get-offsets -l debug -d 'Show the traceback of a failure.'
complete -c pk-get-offsets -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-get-offsets -l command-config -r -F -d 'Properties file for the client.'
complete -c pk-get-offsets -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-get-offsets -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text in a pipe, a table on a terminal.'
complete -c pk-get-offsets -l topic -x -d 'Topics to ask for; all when left out.'
complete -c pk-get-offsets -l partitions -x -d 'Partitions to ask for; all when left out.'
complete -c pk-get-offsets -l topic-partitions -x -d 'Topics (regex) with partitions or ranges.'
complete -c pk-get-offsets -l time -x -d 'Which offset: of the first record at or after a time, or by name.'
complete -c pk-get-offsets -l exclude-internal-topics -d 'Leave internal topics out.'
complete -c pk-get-offsets -s h -l help -d 'Show this message and exit.'
