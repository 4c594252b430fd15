"""The programs that Opilio is compared with, each as a script of its own, and who takes part in a comparison."""
