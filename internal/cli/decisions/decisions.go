// SPDX-License-Identifier: Apache-2.0

// Package decisions reads the records of scheduling attempts from the leading berth-scheduler, and prints them.
package decisions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
)

// Flags are those by which a command shows records.
type Flags struct {
	Scores bool
	// attempts is the number of records.
	attempts int
	// address is that of a scheduler, empty for the leader.
	address string
}

// Last are the flags by which the last records are shown.
func Last(attempts int) *Flags { return &Flags{Scores: true, attempts: attempts} }

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.Scores, "scores", false, "Show the recorded scheduling attempts of the pod, newest first: the scores of the best nodes, or "+
		"why all nodes were rejected.")
	flags.IntVar(&f.attempts, "attempts", 1, fmt.Sprintf("The number of attempts that --scores shows, from 1 to %d.", decision.MaxPerPod))
	flags.StringVar(&f.address, "scheduler-address", "", "The host and port at which berth-scheduler serves its records "+
		"(--decisions-bind-address), instead of a forwarded port of the leading pod. Its certificate is verified unless it is a "+
		"loopback address.")
}

// Validate checks the values of the flags.
func (f *Flags) Validate(cmd *cobra.Command) error {
	for _, name := range []string{"attempts", "scheduler-address"} {
		if cmd.Flags().Changed(name) && !f.Scores {
			return fmt.Errorf("--%s requires --scores", name)
		}
	}
	if f.attempts < 1 || f.attempts > decision.MaxPerPod {
		return fmt.Errorf("--attempts is %d: it must be from 1 to %d", f.attempts, decision.MaxPerPod)
	}
	if f.address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(f.address)
	if _, notNumber := strconv.ParseUint(port, 10, 16); err != nil || host == "" || notNumber != nil {
		return fmt.Errorf("--scheduler-address is %q: it must be host:port, such as 127.0.0.1:10260", f.address)
	}
	return nil
}

// written is the record of a pod that a scheduler wrote as an object, nil if there is none, or if it is of another pod with the
// name.
func written(ctx context.Context, c client.Client, pod *corev1.Pod) *decision.Record {
	o := &v1alpha1.SchedulingDecision{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), o); err != nil {
		return nil // the error of the request to the scheduler is returned
	}
	if r := decision.FromObject(o); r.UID == pod.UID {
		return r
	}
	return nil
}

// Access is what records are read with.
type Access struct {
	Config *rest.Config
	Client client.Client
	// SystemNamespace is that of the schedulers.
	SystemNamespace string
	Now             time.Time
}

// Read reads the records of a pod. lease is that of the scheduler, and berths is set for a pod that berth-scheduler schedules.
type Read = func(ctx context.Context, lease client.ObjectKey, pod *corev1.Pod, berths bool) ([]*decision.Record, error)

// Reader returns what reads the records of a pod, newest first: those of the scheduler or, without them, the one that was written as an
// object; nil if they are not requested. A pod without a record is an error that has the likely reason.
func (f *Flags) Reader(a Access) Read {
	if !f.Scores {
		return nil
	}
	return func(ctx context.Context, lease client.ObjectKey, pod *corev1.Pod, berths bool) ([]*decision.Record, error) {
		records, err := f.fromScheduler(ctx, a, lease, pod)
		if err == nil {
			return records[:min(len(records), f.attempts)], nil
		}
		if r := written(ctx, a.Client, pod); r != nil {
			return []*decision.Record{r}, nil
		}
		if errors.Is(err, ErrNoRecord) {
			err = fmt.Errorf("%w: %s", err, unrecorded(ctx, a.Client, pod, berths))
		}
		return nil, err
	}
}

// fromScheduler returns the records that a scheduler keeps in memory.
func (f *Flags) fromScheduler(ctx context.Context, a Access, lease client.ObjectKey, pod *corev1.Pod) ([]*decision.Record, error) {
	kube, err := kubernetes.NewForConfig(a.Config)
	if err != nil {
		return nil, err
	}
	r := &reader{config: a.Config, at: direct(f.address)}
	if f.address == "" {
		found := &leaders{kube: kube, lease: lease, namespace: a.SystemNamespace, now: a.Now}
		if r.at, err = found.leader(ctx, a.Config); err != nil {
			return nil, err
		}
	}
	return r.read(ctx, pod.Namespace, pod.Name)
}
