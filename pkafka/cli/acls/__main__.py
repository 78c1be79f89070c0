from pkafka.cli.acls import main

main()
