// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/display"
)

const aboutGet = `Shows an environment: its components in the order in which they start, stage by stage, the ports that lead to them from outside, and the
conditions that are not as configured. READY is ready/desired replicas. All of it is as the controller last reported it; -o wide adds images and
messages.`

const getExamples = `  kubectl berth env get shop
  kubectl berth env get shop -o wide
  kubectl berth env get shop -o json`

// Detail is what `env get` shows.
type Detail struct {
	Summary     `json:",inline"`
	Description string                   `json:"description,omitempty"`
	Components  []Component              `json:"components"`
	Ports       []v1alpha1.AllocatedPort `json:"ports"`
	// Conditions are those that are not as configured.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Notes      []string           `json:"notes,omitempty"`
}

// Component is the state of a component.
type Component struct {
	v1alpha1.EnvironmentComponentStatus `json:",inline"`
	// Image is "" for a component that the spec has no more.
	Image string `json:"image,omitempty"`
}

func newGet(o *command.Options) *cobra.Command {
	cmd := anEnvironment(o, "get", "Show an environment and its components", aboutGet, getExamples,
		func(_ context.Context, _ client.Client, env *v1alpha1.Environment) error {
			if o.Output == printers.Name {
				return environmentKind.Show(o, []*v1alpha1.Environment{env}, env.Namespace)
			}
			return showEnvironment(o, environmentDetailOf(env))
		})
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func environmentDetailOf(e *v1alpha1.Environment) *Detail {
	d := &Detail{
		Summary: environmentOf(e), Description: e.Spec.Description, Components: environmentComponents(e),
		Ports: e.Status.Ports, Conditions: unmetConditions(e),
	}
	if d.Ports == nil {
		d.Ports = []v1alpha1.AllocatedPort{}
	}
	d.Notes = environmentKind.Notes(e)
	return d
}

// environmentComponents are the components of the spec in the order in which they start, as the status has them, and after
// them those that only the status has.
func environmentComponents(e *v1alpha1.Environment) []Component {
	out := []Component{}
	known := map[string]bool{}
	for _, c := range stack.Components(&e.Spec.Stack) {
		known[c.Name] = true
		one := Component{Image: c.Container.Image}
		one.Name, one.Stage, one.Replicas = c.Name, c.Stage, c.Replicas
		for i := range e.Status.Components {
			if s := &e.Status.Components[i]; s.Name == c.Name {
				one.EnvironmentComponentStatus = *s
			}
		}
		out = append(out, one)
	}
	for i := range e.Status.Components {
		if s := &e.Status.Components[i]; !known[s.Name] {
			out = append(out, Component{EnvironmentComponentStatus: *s})
		}
	}
	return out
}

// unmetConditions are the conditions that report a difference from the spec. A stopped environment is not ready,
// as configured.
func unmetConditions(e *v1alpha1.Environment) []metav1.Condition {
	stopped := e.Spec.RunPolicy == v1alpha1.RunPolicyStopped && e.Status.Phase == v1alpha1.EnvironmentStopped
	return slices.DeleteFunc(display.Unmet(e.Status.Conditions), func(c metav1.Condition) bool {
		return stopped && c.Type == v1alpha1.ConditionReady
	})
}

func showEnvironment(o *command.Options, d *Detail) error {
	if done, err := o.Print(d); done {
		return err
	}
	o.Sentence(d.headline())
	o.Sentence(d.about())
	if d.Description != "" {
		o.Sentence(d.Description)
	}
	o.Conditions(d.Conditions)
	fmt.Fprintln(o.Out)
	t := &printers.Table{Header: []string{"STAGE", "COMPONENT", "READY", "RESTARTS", "REASON"}, Wide: []string{"IMAGE", "MESSAGE"}}
	for i := range d.Components {
		c := &d.Components[i]
		t.Add(c.Stage, c.Name, fmt.Sprintf("%d/%d", c.ReadyReplicas, c.Replicas), c.Restarts, c.Reason, c.Image, c.Message)
	}
	ports := &printers.Table{Header: []string{"COMPONENT", "PORT", "FROM-OUTSIDE", "PROTOCOL"}}
	for _, p := range d.Ports {
		ports.Add(p.Component, p.ContainerPort, p.HostPort, p.Protocol)
	}
	return o.WriteTables(d.Notes, t, ports)
}

func (d *Detail) headline() string {
	text := fmt.Sprintf("Environment %s/%s", d.Namespace, d.Name)
	if d.DisplayName != "" && d.DisplayName != d.Name {
		text += fmt.Sprintf(" (%s)", d.DisplayName)
	}
	text += " is " + string(d.Phase)
	if d.Message != "" && d.Message != string(d.Phase) {
		text += ": " + d.Message
	}
	return text
}

// about describes what runs, and where.
func (d *Detail) about() string {
	parts := printers.Labelled(nil, "stack ", strings.TrimSpace(d.Stack+" "+d.Version))
	if d.Revision > 0 {
		parts = append(parts, fmt.Sprintf("revision %d", d.Revision))
	}
	if d.RunsIn != "" {
		parts = append(parts, "in namespace "+d.RunsIn)
	} else {
		parts = append(parts, "no namespace yet")
	}
	if d.RunPolicy == v1alpha1.RunPolicyStopped {
		parts = append(parts, "run policy Stopped")
	}
	return printers.Upper(strings.Join(printers.Labelled(parts, "labels ", labels.Set(d.Labels).String()), ", "))
}
