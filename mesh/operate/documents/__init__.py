"""What `-o json` prints, one function per document: commands, the API and its page share it.

Keys are a contract: new ones may be added, none is removed. Spec: lab.md, DESIGN 9.
"""
