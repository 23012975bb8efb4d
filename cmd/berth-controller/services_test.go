// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

func TestDeployRefusesWhatTheConfigurationDoesNotHave(t *testing.T) {
	none, named := &[]v1alpha1.Addon{}, &[]v1alpha1.Addon{v1alpha1.AddonODGM}
	for name, c := range map[string]struct {
		profile, image string
		addons         *[]v1alpha1.Addon
		want           string
	}{
		"no ODGM":                     {"full", "", none, ""},
		"no addons, no image":         {"full", "", nil, "records.odgmImage"},
		"an ODGM, no image":           {"full", "", named, "records.odgmImage"},
		"an ODGM and its image":       {"full", "odgm:1", named, ""},
		"no addons, off":              {"dev", "", nil, ""},
		"an ODGM, off":                {"dev", "", named, "records.features.odgm"},
		"an ODGM that is off, image":  {"dev", "odgm:1", named, "records.features.odgm"},
		"no addons, with their image": {"full", "odgm:1", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := controller.Default()
			assert.Empty(t, config.Records.ODGMImage, "no image of others by default")
			config.Records.Profile, config.Records.ODGMImage = c.profile, c.image
			err := deployable(config)(t.Context(), &v1alpha1.DeploymentRecordSpec{Addons: c.addons})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, codes.FailedPrecondition, server.AsError(err).Code)
		})
	}
}

// additions records what is added to a manager.
type additions struct {
	ctrl.Manager
	runnables []manager.Runnable
	ready     map[string]healthz.Checker
}

func (*additions) GetConfig() *rest.Config { return &rest.Config{Host: "127.0.0.1:1"} }
func (*additions) GetCache() cache.Cache   { return nil }

func (r *additions) Add(runnable manager.Runnable) error {
	r.runnables = append(r.runnables, runnable)
	return nil
}

func (r *additions) AddReadyzCheck(name string, check healthz.Checker) error {
	r.ready[name] = check
	return nil
}

// A pod that is ready and does not serve yet would refuse calls.
func TestTheControllerIsNotReadyBeforeItServes(t *testing.T) {
	c := controller.Default()
	c.Services.BindAddress = "127.0.0.1:0"
	mgr := &additions{ready: map[string]healthz.Checker{}}
	_, err := addServices(mgr, c)
	require.NoError(t, err)
	require.Len(t, mgr.runnables, 1)
	require.Contains(t, mgr.ready, "services")
	require.ErrorContains(t, mgr.ready["services"](nil), "not served")
}
