# Completion of pk-zookeeper-shell for fish; made by scripts/regenerate.py.
complete -c pk-zookeeper-shell -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-zookeeper-shell -l debug -d 'Show the traceback of a failure.'
complete -c pk-zookeeper-shell -l zk-tls-config-file -r -F -d 'Properties file with zookeeper.ssl.client.enable and the rest of zookeeper.ssl.*; stores in PEM.'
complete -c pk-zookeeper-shell -l data-dir -r -F -d 'Instead of a server: the first log directory of a broker without ZooKeeper. While the broker runs, the shell only reads.'
complete -c pk-zookeeper-shell -l read-only -d 'Accept a server that has lost its ensemble.'
complete -c pk-zookeeper-shell -l timeout -x -d 'Give up after this long: milliseconds, or like 5s, 2m. Default 10000.'
complete -c pk-zookeeper-shell -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text.'
complete -c pk-zookeeper-shell -s h -l help -d 'Show this message and exit.'
