from pkafka.cli.dump_log import main

main()
