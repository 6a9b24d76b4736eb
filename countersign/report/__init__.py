"""Reports of analysed studies: one HTML file for people, tables for programs (design/study.md, Report)."""
