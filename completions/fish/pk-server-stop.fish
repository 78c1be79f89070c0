# Completion of pk-server-stop for fish; made by scripts/regenerate.py.
complete -c pk-server-stop -f
complete -c pk-server-stop -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-server-stop -l debug -d 'Show the traceback of a failure.'
complete -c pk-server-stop -l process-role -x -a 'broker controller' -d 'As in Kafka; no process is a controller alone, so controller finds none.'
complete -c pk-server-stop -l node-id -x -d 'Stop only the broker with this id.'
complete -c pk-server-stop -l all -d 'Stop all servers that are found, where there are several.'
complete -c pk-server-stop -s h -l help -d 'Show this message and exit.'
