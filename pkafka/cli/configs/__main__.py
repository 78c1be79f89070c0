from pkafka.cli.configs import main

main()
