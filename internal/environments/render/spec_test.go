// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/test/builders"
)

// A spec of any JSON is refused by a field of it, or renders. Nothing panics.
func FuzzSpec(f *testing.F) {
	seed := func(spec *v1alpha1.EnvironmentSpec) {
		f.Add(text(f, spec), stack.Stages, string(v1alpha1.ExposureLoadBalancer))
	}
	seed(&builders.CompleteEnvironment().Spec)
	for _, s := range Stacks() {
		seed(&v1alpha1.EnvironmentSpec{Stack: s.Stack})
	}
	f.Add(`{"stack":{"additionalServices":[{"name":"database","container":{"image":"x"}},{"name":"frontend"},{"name":"frontend"}]}}`, int32(0), "HostPort")
	f.Add(`{"stack":{"database":{"container":{"image":"x","volumes":[{"mountPath":"/a"},{"name":"data","mountPath":"/b"},{"name":"volume-1","mountPath":"/c"}]}}}}`, int32(1), "NodePort")
	f.Add(`{"stack":{"backend":{"container":{"image":"x","ports":[{"containerPort":-1,"protocol":"x"}],"healthCheck":{"command":[]}}},"frontend":{"container":{},"domains":["x"]}}}`, int32(2), "")
	f.Fuzz(func(t *testing.T, content string, open int32, exposure string) {
		var spec v1alpha1.EnvironmentSpec
		if json.Unmarshal([]byte(content), &spec) != nil {
			t.Skip()
		}
		for _, secret := range []string{thePassword, theKey} {
			if strings.Contains(content, secret) {
				t.Skip()
			}
		}
		all := validation.Spec(&spec)
		in := &Input{
			Environment: builders.CompleteEnvironment(), Namespace: "env-shop", Own: true, OpenStages: open,
			Settings:    Settings{SchedulerName: "berth-scheduler", Exposure: v1alpha1.EnvironmentExposure(exposure), VolumeSize: "1Gi"},
			Credentials: Credentials{Password: thePassword, APIKeys: map[string]string{"PAYMENT_KEY": theKey}},
		}
		in.Environment.Spec = spec
		in.Ports, _ = stack.AllocatePorts(&spec.Stack, nil, nil, stack.PortRange{First: 30000, Last: 32767})
		Render(in)
		if len(all) == 0 {
			wellRendered(t, in)
		}
		for _, e := range all {
			assert.Regexp(t, `^spec\.`, e.Field)
			assert.NotEqual(t, field.ErrorTypeInternal, e.Type)
		}
	})
}
