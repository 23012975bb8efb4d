// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/reload"
)

// rereadPeriod is how often the file is read. It is not watched: a kubelet changes it by renaming folders, and is a minute late
// itself.
const rereadPeriod = 5 * time.Second

var (
	lastReloadSuccessful = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_config_last_reload_successful", Help: "1 if the configuration file could be read and is valid, else 0.",
	})
	fieldsNeedRestart = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_config_fields_need_restart",
		Help: "Fields of the configuration file that were changed and take effect after a restart only.",
	})
)

func init() {
	metrics.Registry.MustRegister(lastReloadSuccessful, fieldsNeedRestart)
	lastReloadSuccessful.Set(1) // it was read at the start
}

// Source is where a configuration comes from.
type Source struct {
	// File is empty if there is none.
	File string
	// Load reads the file and lets the flags override it.
	Load func() (*controller.Configuration, error)
}

// Reloader takes over what is changed in the configuration file, as far as it can take effect in a running program. Every
// replica does so.
type Reloader struct {
	Source
	// Running is what the program uses, Apply has it use another one.
	Running *controller.Configuration
	Apply   func(*controller.Configuration)
	Log     logr.Logger

	// seen is what the file had when it was read last, nil if it could not be read; said is the error that was logged.
	seen []byte
	said string
}

var _ manager.LeaderElectionRunnable = &Reloader{}

// Start implements manager.Runnable.
func (r *Reloader) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(context.Context) { r.Look() }, rereadPeriod)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Reloader) NeedLeaderElection() bool { return false }

// Look reads the file, and takes over what was changed.
func (r *Reloader) Look() {
	content, err := os.ReadFile(r.File)
	if err != nil {
		r.seen = nil
		r.failed(err)
		return
	}
	if r.seen != nil && bytes.Equal(content, r.seen) {
		return
	}
	r.seen = append([]byte{}, content...) // not nil, even of an empty file
	read, err := r.Load()
	if err != nil {
		r.failed(err)
		return
	}
	next, err := reload.Decide(r.Running, read)
	if err != nil {
		r.failed(err)
		return
	}
	r.said = ""
	lastReloadSuccessful.Set(1)
	fieldsNeedRestart.Set(float64(len(next.NeedRestart)))
	if len(next.TakeEffect) > 0 {
		r.Apply(next.Configuration)
		r.Running = next.Configuration
	}
	r.tell("The configuration was changed", next.TakeEffect)
	r.tell("The configuration file was changed, which takes effect after a restart only", next.NeedRestart)
}

func (r *Reloader) tell(message string, changes []reload.Change) {
	for _, c := range changes {
		r.Log.Info(message, "field", c.Field, "from", c.From, "to", c.To)
	}
}

// failed logs once why the file cannot be used.
func (r *Reloader) failed(err error) {
	lastReloadSuccessful.Set(0)
	if r.said != err.Error() {
		r.said = err.Error()
		r.Log.Error(err, "The configuration file cannot be used: what was read before stays in force", "file", r.File)
	}
}
