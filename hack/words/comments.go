// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// personal matches what only people do, and a comment must not have software do.
	personal = regexp.MustCompile(`(?i)\b(?:says|knows|stands|asks|tells|wants|` +
		`(?:is|are|be|was|were|been|being) (?:not )?(?:told|asked|said)|requested whether|` +
		`(?:cannot|can|could|must|may|does not|do not|did not) (?:say|know|tell|ask|want))\b`)
	// people are the words before a personal verb that make it right.
	people = regexp.MustCompile(`(?i)\b(?:users?|administrators?|operators?|developers?|maintainers?|readers?|people|who|she|he)\s+$`)
	// firstWord is the name of what a comment describes.
	firstWord = regexp.MustCompile(`^//\s*\w+`)
	// commentsOf are the folders that still have such comments, and how many they may have together: a number that only falls.
	commentsOf    = []string{"cmd/berth-scheduler", "controllers/mix/rebalance", "internal/mix/rebalance", "plugins", "scheduler"}
	commentsLimit = 75
)

// checkComments returns a line for each comment of the Go files at root in which software does what only people do.
func checkComments(root string) (found []string, err error) {
	var former []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "out"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		list, err := personalComments(root, relative)
		if slices.ContainsFunc(commentsOf, func(folder string) bool {
			return strings.HasPrefix(filepath.ToSlash(relative), folder+"/")
		}) {
			former = append(former, list...)
		} else {
			found = append(found, list...)
		}
		return err
	})
	if len(former) > commentsLimit {
		found = append(found, former...)
		found = append(found, fmt.Sprintf("%s: %d comments, at most %d", strings.Join(commentsOf, ", "), len(former), commentsLimit))
	}
	return found, err
}

// personalComments returns a line for each such comment of one file. The first word of a comment is the name of what it describes.
func personalComments(root, path string) (found []string, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		for i, comment := range group.List {
			at := files.Position(comment.Pos()).Line
			for n, line := range strings.Split(comment.Text, "\n") {
				if name := firstWord.FindString(line); i == 0 && n == 0 {
					line = line[len(name):]
				}
				for _, m := range personal.FindAllStringIndex(line, -1) {
					if !people.MatchString(line[:m[0]]) {
						found = append(found, fmt.Sprintf("%s:%d: %q: write what the program does: reports, has, reads, requests, requires",
							path, at+n, line[m[0]:m[1]]))
					}
				}
			}
		}
	}
	return found, nil
}
