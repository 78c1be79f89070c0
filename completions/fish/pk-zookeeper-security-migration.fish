# Completion of pk-zookeeper-security-migration for fish; made by scripts/regenerate.py.
complete -c pk-zookeeper-security-migration -f
complete -c pk-zookeeper-security-migration -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-zookeeper-security-migration -l debug -d 'Show the traceback of a failure.'
complete -c pk-zookeeper-security-migration -l zookeeper.acl -x -a 'secure unsecure' -d 'Make the nodes the user\'s own that this command logs in as, or open them to everybody.'
complete -c pk-zookeeper-security-migration -l zookeeper.connect -x -d 'As zookeeper.connect of the brokers. Default localhost:2181.'
complete -c pk-zookeeper-security-migration -l zookeeper.session.timeout -x -d 'How long the session outlives its connection, and how long to wait for an answer. Default 30000.'
complete -c pk-zookeeper-security-migration -l zookeeper.connection.timeout -x -d 'How long to wait for a connection. Default 30000.'
complete -c pk-zookeeper-security-migration -l enable.path.check -d 'End without a change below the chroot where a subtree of a cluster is not there.'
complete -c pk-zookeeper-security-migration -l zk-tls-config-file -r -F -d 'Properties file with zookeeper.ssl.client.enable and the rest of zookeeper.ssl.*.'
complete -c pk-zookeeper-security-migration -l dry-run -d 'Say which nodes would be changed, and change none.'
complete -c pk-zookeeper-security-migration -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text.'
complete -c pk-zookeeper-security-migration -s h -l help -d 'Show this message and exit.'
