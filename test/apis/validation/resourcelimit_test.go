// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/config/validation"
)

func TestResourceLimitArgs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    config.ResourceLimitArgs
		wantErr string
	}{
		"no default namespace is accepted": {args: config.ResourceLimitArgs{SyncTimeoutSeconds: 1}},
		"a default namespace is accepted":  {args: config.ResourceLimitArgs{DefaultNamespace: "sizes", SyncTimeoutSeconds: 600}},
		"what is no namespace is refused": {
			config.ResourceLimitArgs{DefaultNamespace: "My Sizes", SyncTimeoutSeconds: 60},
			`args.defaultNamespace: Invalid value: "My Sizes": a lowercase RFC 1123 label must consist of`,
		},
		"no time to synchronise is refused": {
			config.ResourceLimitArgs{}, `args.syncTimeoutSeconds: Invalid value: 0: must be between 1 and 600`,
		},
		"more than ten minutes are refused": {
			config.ResourceLimitArgs{SyncTimeoutSeconds: 601}, `args.syncTimeoutSeconds: Invalid value: 601: must be between 1 and 600`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := validation.ValidateResourceLimitArgs(field.NewPath("args"), &tc.args)
			if tc.wantErr == "" {
				assert.Empty(t, errs)
			} else if assert.Len(t, errs, 1) {
				assert.True(t, strings.HasPrefix(errs[0].Error(), tc.wantErr), errs[0].Error())
			}
		})
	}
}
