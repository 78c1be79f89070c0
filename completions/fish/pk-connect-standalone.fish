# Completion of pk-connect-standalone for fish; made by scripts/regenerate.py.
complete -c pk-connect-standalone -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-connect-standalone -l debug -d 'Show the traceback of a failure.'
complete -c pk-connect-standalone -s daemon -l daemon -d 'Run in the background; logs go to $LOG_DIR (./logs).'
complete -c pk-connect-standalone -l override -x -a '(pk-completions names broker-keys= (commandline -opc) 2>/dev/null)' -d 'Set a key of the worker over the file\'s value.'
complete -c pk-connect-standalone -s h -l help -d 'Show this message and exit.'
