// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/config/controller"
)

// configured is the path of a field of a configuration in a text. An API group, a file, or a path of a URL is none.
var configured = regexp.MustCompile(`(?:^|[^\w./-])` +
	`((?:services|records|environments|leaderElection|webhook|clientConnection|console|health|metrics|mix)(?:\.[a-z][A-Za-z0-9]*)+)` +
	`(?:$|[^\w/.-])`)

// A message that names a field which does not exist sends its reader astray.
func TestAFieldThatATextNamesIsInTheConfiguration(t *testing.T) {
	found := 0
	for _, s := range handWritten(t) {
		if s.isTest() || strings.HasPrefix(s.path, "hack/") || strings.HasPrefix(s.path, "test/") { // no user reads them
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			for _, m := range configured.FindAllStringSubmatch(strings.Trim(literal.Value, "\"`"), -1) {
				if slices.Contains([]string{".dev", ".io", ".md", ".yaml"}, filepath.Ext(m[1])) {
					continue
				}
				found++
				assert.True(t, isField(reflect.TypeFor[controller.Configuration](), m[1]), "%s: %s", s.files.Position(literal.Pos()), m[1])
			}
			return true
		})
	}
	assert.Greater(t, found, 30, "the texts that name fields are found")
}

// isField reports whether a struct has a field of a path of JSON names.
func isField(in reflect.Type, path string) bool {
	name, below, more := strings.Cut(path, ".")
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return false
	}
	for _, f := range reflect.VisibleFields(in) {
		if own, _, _ := strings.Cut(f.Tag.Get("json"), ","); own == name {
			return !more || isField(f.Type, below)
		}
	}
	return false
}
