# Completion of pk-verify-log for fish; made by scripts/regenerate.py.
complete -c pk-verify-log -f
complete -c pk-verify-log -l version -d 'Print the version of Kafka that this is compatible with.'
complete -c pk-verify-log -l debug -d 'Show the traceback of a failure.'
complete -c pk-verify-log -l files -r -F -d 'Segments, or directories of partitions or of data.'
complete -c pk-verify-log -l deep-iteration -d 'Decode the records too.'
complete -c pk-verify-log -l compacted -d 'Do not take gaps between offsets for damage.'
complete -c pk-verify-log -l output -x -a 'text table json jsonl csv' -d 'Format of the answer; default: Kafka\'s text.'
complete -c pk-verify-log -s h -l help -d 'Show this message and exit.'
