// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheProcessesOfFeatures(t *testing.T) {
	serve := ServiceAddresses{Berth: "127.0.0.1:1", Environments: "127.0.0.1:2"}
	for _, c := range []struct {
		features Features
		single   bool
		want     []string
	}{
		{nil, false, []string{"berth-controller [*] []"}},
		{Features{Limits}, false, []string{"berth-controller [*] []", "berth-records [] [127.0.0.1:1]"}},
		{AllFeatures(), false, []string{
			"berth-controller [*] []", "berth-records [records] [127.0.0.1:1]", "berth-environments [environments] [127.0.0.1:2]",
		}},
		{Features{Limits}, true, []string{"berth-controller [*] [127.0.0.1:1]"}},
		{AllFeatures(), true, []string{"berth-controller [* records environments] [127.0.0.1:1 127.0.0.1:2]"}},
	} {
		var got []string
		for _, p := range (&ControllersOptions{Features: c.features, Serve: serve, SingleProcess: c.single}).processes() {
			got = append(got, fmt.Sprint(p.name, " ", p.controllers, " ", p.serve))
		}
		assert.Equal(t, c.want, got)
	}
}
