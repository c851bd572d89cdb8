# Thin: every target is one or two commands of CMake's or of scripts/.
.PHONY: all
all: build
build:
	cmake -S . -B build -G Ninja && cmake --build build
