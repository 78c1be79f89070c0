# Completion of pk-connect-mirror-maker for fish; made by scripts/regenerate.py.
complete -c pk-connect-mirror-maker -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-connect-mirror-maker -l debug -d 'Show the traceback of a failure.'
complete -c pk-connect-mirror-maker -l clusters -x -d 'Run only the flows to this cluster; may be given again, or name several with spaces between them.'
complete -c pk-connect-mirror-maker -s daemon -l daemon -d 'Run in the background; logs go to $LOG_DIR (./logs).'
complete -c pk-connect-mirror-maker -l override -x -a '(pk-completions names broker-keys= (commandline -opc) 2>/dev/null)' -d 'Set a key of the file over its value.'
complete -c pk-connect-mirror-maker -s h -l help -d 'Show this message and exit.'
