// SPDX-License-Identifier: Apache-2.0

// Command words reports where a text that users read has a word that the glossary replaces (lost.txt), and where a comment has
// software do what only people do (comments.go). make verify runs it.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	found, err := check(".")
	comments, commentsErr := checkComments(".")
	if err := errors.Join(err, commentsErr); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	found = append(found, comments...)
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "words: %d texts have words that docs/glossary.md replaces\n", len(found))
		os.Exit(1)
	}
}
