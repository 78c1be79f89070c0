# Completion of pk-zookeeper-server-start for fish; made by scripts/regenerate.py.
complete -c pk-zookeeper-server-start -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-zookeeper-server-start -l debug -d 'Show the traceback of a failure.'
complete -c pk-zookeeper-server-start -l daemon -d 'Run in the background; output goes to $LOG_DIR (./logs).'
complete -c pk-zookeeper-server-start -l jars -r -F -d 'Where ZooKeeper\'s jars are, if not in pyspark\'s.'
complete -c pk-zookeeper-server-start -s h -l help -d 'Show this message and exit.'
