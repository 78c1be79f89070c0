# Completion of pk-server-start for fish; made by scripts/regenerate.py.
complete -c pk-server-start -l version -d 'Print the versions, and whether the record loops are compiled.'
complete -c pk-server-start -l debug -d 'Show the traceback of a failure.'
complete -c pk-server-start -l daemon -d 'Run in the background; logs go to $LOG_DIR (./logs).'
complete -c pk-server-start -l wait -d 'With --daemon: return when clients are served, fail if it does not start.'
complete -c pk-server-start -l override -x -a '(pk-completions names broker-keys= (commandline -opc) 2>/dev/null)' -d 'Set a key over the file\'s value.'
complete -c pk-server-start -l adopt -d 'Take over the partitions that an Apache Kafka left in the log directories (embedded store only).'
complete -c pk-server-start -l ready-file -r -F -d 'Write host:port of the first listener to this file once clients are served.'
complete -c pk-server-start -s h -l help -d 'Show this message and exit.'
