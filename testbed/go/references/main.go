// Reads one JSON text per line, an image reference, and answers with its parts, or with {"error": …}.
package main

import (
	"bufio"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/json"
	"fmt"
	"os"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

type parts struct {
	Domain string `json:"domain"`
	Path   string `json:"path"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"`
}

func parse(line []byte) (any, error) {
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return nil, err
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil, err
	}
	found := parts{Domain: reference.Domain(named), Path: reference.Path(named)}
	if tagged, ok := named.(interface{ Tag() string }); ok {
		found.Tag = tagged.Tag()
	}
	if digested, ok := named.(interface{ Digest() digest.Digest }); ok {
		found.Digest = digested.Digest().String()
	}
	return found, nil
}

func main() {
	reader, writer := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(writer)
	for reader.Scan() {
		answer, err := parse(reader.Bytes())
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := encoder.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		writer.Flush()
	}
	if err := reader.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
