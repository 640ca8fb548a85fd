"""What spark-submit runs, which takes a file and no module: the command `tideglass`, with its arguments.

spark-submit --master spark://host:7077 "$(tideglass launcher)" run PROJECT --once
"""

from tideglass.cli.main import main

if __name__ == "__main__":
    main()
