"""What `-o json` prints, one function for each document: commands, the API and its page share it.

Keys are a contract: new ones may come, none goes. Spec: lab.md, DESIGN 9.
"""
