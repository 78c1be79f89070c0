from pkafka.cli.completions import main

main()
