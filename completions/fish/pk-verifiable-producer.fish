# Completion of pk-verifiable-producer for fish; made by scripts/regenerate.py.
complete -c pk-verifiable-producer -f
complete -c pk-verifiable-producer -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-verifiable-producer -l debug -d 'Show the traceback of a failure.'
complete -c pk-verifiable-producer -l topic -x -d 'Where the records go.'
complete -c pk-verifiable-producer -l bootstrap-server -x -d 'Brokers to begin with.'
complete -c pk-verifiable-producer -l max-messages -x -d 'How many; -1 until ended from outside.'
complete -c pk-verifiable-producer -l throughput -x -d 'At most so many a second, about.'
complete -c pk-verifiable-producer -l acks -x -a '0 1 -1' -d 'How many replicas acknowledge (-1: all).'
complete -c pk-verifiable-producer -l command-config -l producer.config -r -F -d 'Properties file; wins over flags.'
complete -c pk-verifiable-producer -l message-create-time -x -d 'Timestamp of the first record.'
complete -c pk-verifiable-producer -l value-prefix -x -d 'Stands before every value, with a dot.'
complete -c pk-verifiable-producer -l repeating-keys -x -d 'Keys from 0 to below N, over and over.'
complete -c pk-verifiable-producer -s h -l help -d 'Show this message and exit.'
