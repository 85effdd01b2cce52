"""`python -m forensics` is the command `kafka-forensics`."""

from forensics.cli.app import main

if __name__ == "__main__":
    main()
