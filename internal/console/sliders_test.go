// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A slider that moves draws the slots, and only one that stays makes a plan. What is shown of other numbers cannot be applied, and no page
// but a plan is shown in its place.
func TestSlidersShowWhatTheirNumbersWouldDo(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("it requires node")
	}
	script, err := filepath.Abs("static/sliders.js")
	require.NoError(t, err)
	page, err := filepath.Abs("testdata/sliders.mjs")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), node, page, script).CombinedOutput()
	require.NoError(t, err, string(out))
	var did struct {
		Cap, Raised                                     []string
		None, Draft, Drawn, Fifty, Plan, After, Refused string
		Disabled, Aborted                               bool
		Reloaded                                        int
		Invalid                                         []any
	}
	require.NoError(t, json.Unmarshal(out, &did), string(out))
	assert.Equal(t, []string{"51", "50"}, did.Cap, "a cap above the replicas is not that there is none")
	assert.Equal(t, "51", did.None)
	assert.Equal(t, "50", did.Fifty)
	assert.Equal(t, []string{"71", "70"}, did.Raised)
	assert.Equal(t, "/plan?spotPercent=70&maxSpot=&draft=1", did.Draft)
	assert.True(t, did.Disabled, "the plan that is shown is of other numbers")
	assert.Equal(t, `<div id="plan-result">drawn</div>`, did.Drawn)
	assert.Equal(t, "/plan?spotPercent=70&maxSpot=50&result=1", did.Plan)
	assert.True(t, did.Aborted, "a plan of other numbers ends")
	assert.Equal(t, "/plan?spotPercent=80&maxSpot=50&draft=1", did.After)
	assert.Equal(t, 1, did.Reloaded, "the login is not shown in place of the plan")
	assert.Equal(t, "The console responded with status 429. Show the plan again later.", did.Refused)
	assert.Equal(t, []any{true, 0.0}, did.Invalid, "invalid numbers are not sent, and those before are not applied")
}
