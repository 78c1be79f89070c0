# Completion of pk-zookeeper-server-stop for fish; made by scripts/regenerate.py.
complete -c pk-zookeeper-server-stop -f
complete -c pk-zookeeper-server-stop -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-zookeeper-server-stop -l debug -d 'Show the traceback of a failure.'
complete -c pk-zookeeper-server-stop -l all -d 'Stop all servers that are found, where there are several.'
complete -c pk-zookeeper-server-stop -s h -l help -d 'Show this message and exit.'
