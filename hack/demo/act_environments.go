// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

// components is the number of components of the stack web-postgres, each with one pod.
const components = 3

// environments runs a complete application over gRPC.
func (d *demo) environments(ctx context.Context) error {
	d.title("Environments: a complete application that can be stopped and started")
	volume := storage()
	if err := d.client.Create(ctx, volume); err != nil {
		return fmt.Errorf("create the volume of the database: %w", err)
	}
	d.say("A client creates a database, a backend and a frontend from a predefined stack. Each starts when the one before is ready. " +
		"While the environment is stopped, it has no pods and keeps the volume of its database.")
	s, err := d.service(ctx, d.serve.Environments, "scheduler.v1.SchedulerService")
	if err != nil {
		return err
	}
	defer func() { _ = s.conn.Close() }()
	created := &schedulerv1.CreateEnvironmentResponse{}
	err = s.call(
		ctx, "CreateEnvironment", `{"spec": {"name": "shop",
"application_stack": {"name": "web-postgres"}}}`,
		&schedulerv1.CreateEnvironmentRequest{}, created,
	)
	if err != nil {
		return err
	}
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: created.GetEnvironment().GetId()}}
	if err := d.untilPhase(ctx, e, v1alpha1.EnvironmentRunning); err != nil {
		return err
	}
	if err := d.berthTable(ctx, "STAGE ", "env", "get", e.Name); err != nil {
		return err
	}
	if err := d.stopAndStart(ctx, s, e); err != nil {
		return err
	}
	if err := d.deleteEnvironment(ctx, s, e); err != nil {
		return err
	}
	return client.IgnoreNotFound(d.client.Delete(ctx, volume))
}

// storage is the volume of the database. No StorageClass of the demo provides one.
func storage() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-database"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
}

// stopAndStart checks the pods and the volume claim of the environment while it runs, is stopped, and runs again.
func (d *demo) stopAndStart(ctx context.Context, s *service, e *v1alpha1.Environment) error {
	first, err := d.state(ctx, e)
	if err != nil {
		return err
	}
	d.showState(&first, "running", components, first.claim)
	id := fmt.Sprintf(`{"id": %q}`, e.Name)
	if err := s.call(ctx, "StopEnvironment", id, &schedulerv1.StopEnvironmentRequest{}, &schedulerv1.StopEnvironmentResponse{}); err != nil {
		return err
	}
	if err := d.untilPhase(ctx, e, v1alpha1.EnvironmentStopped); err != nil {
		return err
	}
	now, err := d.state(ctx, e)
	if err != nil {
		return err
	}
	d.showState(&now, "stopped", 0, first.claim)
	if err := s.call(ctx, "StartEnvironment", id, &schedulerv1.StartEnvironmentRequest{}, &schedulerv1.StartEnvironmentResponse{}); err != nil {
		return err
	}
	if err := d.untilPhase(ctx, e, v1alpha1.EnvironmentRunning); err != nil {
		return err
	}
	if now, err = d.state(ctx, e); err != nil {
		return err
	}
	d.showState(&now, "running again", components, first.claim)
	return nil
}

// state is what an environment has in its namespace.
type state struct {
	pods  []pod
	claim string // the UID of the bound volume claim, "" if there is not exactly one
}

func (d *demo) state(ctx context.Context, e *v1alpha1.Environment) (state, error) {
	pic, err := d.lookAt(ctx, client.InNamespace(e.Status.Namespace))
	if err != nil {
		return state{}, err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := d.client.List(ctx, claims, client.InNamespace(e.Status.Namespace)); err != nil {
		return state{}, fmt.Errorf("list volume claims: %w", err)
	}
	out := state{pods: pic.pods}
	if len(claims.Items) == 1 && claims.Items[0].Status.Phase == corev1.ClaimBound {
		out.claim = string(claims.Items[0].UID)
	}
	return out, nil
}

// showState checks an environment and prints its pods, and its claim.
func (d *demo) showState(st *state, name string, pods int, claim string) {
	ok := d.results.add(stateIs(st, name, pods, claim))
	kept := "no claim"
	if st.claim != "" {
		kept = "1 volume claim bound"
		if name != "running" && st.claim == claim {
			kept += ", the same"
		}
	}
	d.line("    %s%s%s%s", pad(name+":", 16), pad(fmt.Sprintf("%d pods,", len(st.pods)), 9), pad(kept, 36), d.verdict(ok, "ok"))
}

// stateIs checks that an environment has n pods, all Ready, the database on on-demand, and a volume claim.
func stateIs(st *state, name string, n int, claim string) (differs differences) {
	if len(st.pods) != n {
		differs.add("%s: %d pods instead of %d", name, len(st.pods), n)
	}
	if st.claim == "" || st.claim != claim {
		differs.add("%s: the volume claim is %q instead of %q", name, st.claim, claim)
	}
	for i := range st.pods {
		p := &st.pods[i]
		if !p.ready {
			differs.add("%s: pod %s is not Ready", name, p.name)
		}
		if strings.HasPrefix(p.name, "database-") && p.on != capacity.OnDemand {
			differs.add("%s: the database runs on %s node %s", name, p.on, p.node)
		}
	}
	return differs
}

// untilPhase waits until an environment has a phase.
func (d *demo) untilPhase(ctx context.Context, e *v1alpha1.Environment, phase v1alpha1.EnvironmentPhase) error {
	_, err := d.until(ctx, fmt.Sprintf("environment %s is %s", e.Name, phase), func(picture) (bool, string) {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
			return false, err.Error()
		}
		return e.Status.Phase == phase && e.Status.ObservedGeneration == e.Generation, fmt.Sprint(e.Status.Phase, ": ", e.Status.Message)
	})
	return err
}

// deleteEnvironment deletes the environment and waits until nothing of it exists.
func (d *demo) deleteEnvironment(ctx context.Context, s *service, e *v1alpha1.Environment) error {
	objects := func() ([]string, error) {
		of := client.MatchingLabels{v1alpha1.EnvironmentLabel: e.Name}
		return d.existing(
			ctx, []client.ListOption{of}, &corev1.NamespaceList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
			&corev1.ServiceList{}, &corev1.SecretList{},
		)
	}
	before, err := objects()
	if err != nil {
		return err
	}
	if !slices.Contains(before, "Namespace "+e.Status.Namespace) {
		d.results.add([]string{"environment " + e.Name + " has no namespace: " + strings.Join(before, ", ")})
	}
	err = s.call(
		ctx, "DeleteEnvironment", fmt.Sprintf(`{"id": %q}`, e.Name), &schedulerv1.DeleteEnvironmentRequest{},
		&schedulerv1.DeleteEnvironmentResponse{},
	)
	if err != nil {
		return err
	}
	return d.untilNothing(ctx, e, len(before), objects)
}

// untilNothing waits until an object and what was created for it are gone, and prints that.
func (d *demo) untilNothing(ctx context.Context, owner client.Object, before int, objects func() ([]string, error)) error {
	began := time.Now()
	_, err := d.until(ctx, owner.GetName()+" and its objects are gone", func(picture) (bool, string) {
		left, err := objects()
		if err != nil {
			return false, err.Error()
		}
		err = d.client.Get(ctx, client.ObjectKeyFromObject(owner), owner)
		return len(left) == 0 && client.IgnoreNotFound(err) == nil && err != nil, strings.Join(left, ", ")
	})
	if err != nil {
		return err
	}
	ok := d.results.add(nil)
	d.say("It and its %d objects are gone within %s: %s.", before, tenths(time.Since(began)), d.verdict(ok, "nothing left"))
	return nil
}
