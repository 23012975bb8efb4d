// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAllowsPath(t *testing.T) {
	for _, c := range []struct {
		allowed   []string
		directory string
		want      bool
	}{
		{nil, "/srv", false},
		{[]string{"/srv"}, "/srv", true},
		{[]string{"/srv/"}, "/srv/a//b", true},
		{[]string{"/srv"}, "/srv2", false},
		{[]string{"/srv/a"}, "/srv", false},
		{[]string{"/srv"}, "/srv/../etc", false},
		{[]string{"/x", "/"}, "/etc", true},
		{[]string{"srv"}, "/srv", false},
	} {
		assert.Equal(t, c.want, AllowsPath(c.allowed, c.directory), "%v %s", c.allowed, c.directory)
	}
}

// The claims of an environment are distinct, and long names are made short.
func TestClaimOf(t *testing.T) {
	assert.Equal(t, "database-data", ClaimOf(Database, "data"))
	long := strings.Repeat("a", 52)
	assert.Len(t, ClaimOf(long, "0123456789"), 63, "as it is")
	assert.Regexp(t, `^a{52}-0{1}-[0-9a-f]{8}$`, ClaimOf(long, "0-"+strings.Repeat("b", 30)))
	assert.NotEqual(t, ClaimOf(long, strings.Repeat("b", 39)+"1"), ClaimOf(long, strings.Repeat("b", 39)+"2"))
}
