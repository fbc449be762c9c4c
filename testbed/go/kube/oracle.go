package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// answer turns one input line into a value to print as JSON.
type answer func(line []byte) (any, error)

type failure struct {
	Error string `json:"error"`
}

// serveLines prints one JSON line for each line read, at once, so that a test may keep one process open and
// ask a hundred thousand times. A line that cannot be answered is answered with {"error": …}.
func serveLines(in io.Reader, out io.Writer, ask answer) error {
	reader, writer := bufio.NewReaderSize(in, 1<<16), bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, readErr := reader.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := encoder.Encode(askSafely(ask, line)); err != nil {
				return err
			}
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// askSafely also answers where the code under question panics: that, too, is something a test wants to know.
func askSafely(ask answer, line []byte) (result any) {
	defer func() {
		if reason := recover(); reason != nil {
			result = failure{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	result, err := ask(line)
	if err != nil {
		return failure{Error: err.Error()}
	}
	return result
}

func runOracle(ask answer) int {
	if err := serveLines(os.Stdin, os.Stdout, ask); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
