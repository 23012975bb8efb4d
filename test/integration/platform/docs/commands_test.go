// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/testenv"
)

// command is one that a page has its reader type.
type command struct {
	page string
	line int
	// text is without its comment and without the prompt; it may have several lines.
	text string
}

func (c command) String() string { return fmt.Sprintf("%s:%d: %s", c.page, c.line, c.text) }

var (
	// assignments may precede a program.
	assignments = regexp.MustCompile(`^([A-Z_]+=('[^']*'|"[^"]*"|\S*) +)+`)
	// begins is how a line begins that is a command: with one of the programs that the pages use.
	begins = regexp.MustCompile(`^([A-Z_]+=\S* +)*((make|go|git|kubectl|helm|kind|docker|curl|grpcurl|openssl|install) |(bin|hack)/)|^[A-Z]+=\$\(`)
	// comment follows a command, two spaces away.
	comment = regexp.MustCompile(`\s{2,}#.*$`)
)

// commandsOf returns the commands of all pages.
func commandsOf(t *testing.T) (all []command) {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	more, err := filepath.Glob(testenv.Path("docs/*.md"))
	require.NoError(t, err)
	for _, p := range more {
		pages = append(pages, "docs/"+filepath.Base(p))
	}
	for _, page := range pages {
		all = append(all, commandsIn(page, testenv.ReadFile(t, testenv.Path(page)))...)
	}
	require.Greater(t, len(all), 80, "the pages are read otherwise than they are written")
	return all
}

// commandsIn reads code that is indented by four spaces or more. Where a block has prompts, what follows them are the
// commands, and the rest is output.
func commandsIn(page, text string) (all []command) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "```") {
			// YAML and the like: nothing to type.
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
			}
			continue
		}
		if !strings.HasPrefix(lines[i], "    ") {
			continue
		}
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], "    ") {
			end++
		}
		all = append(all, commandsOfBlock(page, i+1, lines[i:end])...)
		i = end
	}
	return all
}

func commandsOfBlock(page string, first int, lines []string) (all []command) {
	session := strings.HasPrefix(strings.TrimSpace(lines[0]), "$ ")
	open := false
	for i, line := range lines {
		line = strings.TrimSpace(comment.ReplaceAllString(line, ""))
		prompt := strings.HasPrefix(line, "$ ")
		line = strings.TrimPrefix(line, "$ ")
		switch {
		case open:
			all[len(all)-1].text += "\n" + line
		case prompt, !session && begins.MatchString(line):
			all = append(all, command{page, first + i, line})
		default:
			continue
		}
		open = unfinished(all[len(all)-1].text)
	}
	return all
}

// unfinished reports whether a shell would request more.
func unfinished(text string) bool {
	return strings.HasSuffix(text, `\`) || strings.Count(text, "'")%2 == 1 ||
		strings.Contains(text, "; do") && !strings.HasSuffix(text, "done")
}

func TestCommandsAreRead(t *testing.T) {
	const page = "text\n\n    make demo    # shows it\n    SPOT=6 make cluster-up\n    NAME   SPOT\n\n```yaml\nmake: no\n```\n\n" +
		"    $ kubectl get mix\n    make no\n\ntext\n\n    curl -d '{\n        \"a\": 1}' \\\n      host\n    go test ./x\n"
	var texts []string
	for _, c := range commandsIn("page.md", page) {
		texts = append(texts, fmt.Sprint(c.line, " ", c.text))
	}
	require.Equal(t, []string{"3 make demo", "4 SPOT=6 make cluster-up", "11 kubectl get mix", "16 curl -d '{\n\"a\": 1}' \\\nhost", "19 go test ./x"}, texts)
}
