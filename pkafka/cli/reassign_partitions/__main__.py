from pkafka.cli.reassign_partitions import main

main()
