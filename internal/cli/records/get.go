// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
)

const aboutRecordsGet = `Shows a record, the objects that were created for it, the nodes of its pods, and the addresses of its functions. READY is ready/desired
replicas, of the record ready/all functions. PODS are spot/on-demand; "2?" after them are on nodes of unknown type.`

// RecordDetail is what `records get` shows.
type RecordDetail struct {
	RecordStatus `json:",inline"`
	// DeploymentID is what the client called it.
	DeploymentID string                  `json:"deploymentID,omitempty"`
	Compliance   *v1alpha1.NFRCompliance `json:"compliance,omitempty"`
	// Conditions are those that are not fine.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Tree       []RecordNode       `json:"tree"`
	Endpoints  []RecordEndpoint   `json:"endpoints"`
	Notes      []string           `json:"notes,omitempty"`
}

// RecordEndpoint is where a function, or the ODGM, answers.
type RecordEndpoint struct {
	// Function is "" for the ODGM.
	Function string `json:"function,omitempty"`
	URL      string `json:"url"`
	Ready    bool   `json:"ready"`
}

func newRecordsGet(o *command.Options) *cobra.Command {
	cmd := aRecord(o, "get", "Show a record and the objects that were created for it", aboutRecordsGet,
		"  kubectl berth records get cart\n  kubectl berth records get cart -o yaml",
		func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error {
			if o.Output == printers.Name {
				return recordKind.Show(o, []*v1alpha1.DeploymentRecord{rec}, rec.Namespace)
			}
			p, err := readParts(ctx, o, c, rec)
			if err != nil {
				return err
			}
			return showRecord(o, detailOf(p))
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func detailOf(p *recordParts) *RecordDetail {
	rec := p.rec
	d := &RecordDetail{
		RecordStatus: recordOf(rec), DeploymentID: rec.Spec.DeploymentUnit.ID, Compliance: rec.Status.NFRCompliance,
		Conditions: display.Unmet(rec.Status.Conditions), Tree: treeOf(p), Endpoints: []RecordEndpoint{},
	}
	for i := range rec.Status.Functions {
		if f := &rec.Status.Functions[i]; f.URL != "" {
			d.Endpoints = append(d.Endpoints, RecordEndpoint{Function: f.FunctionKey, URL: f.URL, Ready: f.Ready})
		}
	}
	if s := rec.Status.ODGM; s != nil && s.Address != "" {
		d.Endpoints = append(d.Endpoints, RecordEndpoint{URL: s.Address, Ready: s.Ready})
	}
	d.Notes = recordKind.Notes(rec)
	return d
}

func showRecord(o *command.Options, d *RecordDetail) error {
	if done, err := o.Print(d); done {
		return err
	}
	o.Sentence(d.headline())
	o.Sentence(d.about())
	if d.Compliance != nil {
		o.Sentence(complianceText(o, d.Compliance))
	}
	o.Conditions(d.Conditions)
	fmt.Fprintln(o.Out)
	t := &printers.Table{Header: []string{"RESOURCE", "READY", "PODS", "PENDING", "DETAIL"}}
	t.Add("DeploymentRecord/"+d.Name, fmt.Sprintf("%d/%d", d.ReadyFunctions, d.Functions), "-", "-", d.Phase)
	rows(t, d.Tree, "")
	urls := &printers.Table{Header: []string{"FUNCTION", "READY", "URL"}}
	for _, e := range d.Endpoints {
		urls.Add(cmp.Or(e.Function, "(ODGM)"), map[bool]string{true: "True", false: "False"}[e.Ready], e.URL)
	}
	return o.WriteTables(d.Notes, t, urls)
}

func (d *RecordDetail) headline() string {
	text := fmt.Sprintf("DeploymentRecord %s/%s is %s", d.Namespace, d.Name, d.Phase)
	if d.Message != "" && d.Message != string(d.Phase) {
		text += ": " + d.Message
	}
	return text
}

// about describes what it is a record of.
func (d *RecordDetail) about() string {
	parts := printers.Labelled(nil, "class ", d.Class)
	if d.DeploymentID != "" {
		parts = append(parts, fmt.Sprintf("deployment id %q", d.DeploymentID))
	}
	parts = printers.Labelled(parts, "environment ", d.Environment)
	if d.Template != "" {
		parts = append(parts, "rendered with template "+d.Template)
	} else {
		parts = append(parts, "not rendered yet")
	}
	return printers.Upper(strings.Join(append(parts, "enforcement "+string(d.Enforcement)), ", "))
}

// complianceText is "Requirements: Violated (throughput Met, latency Violated), checked 2m ago".
func complianceText(o *command.Options, c *v1alpha1.NFRCompliance) string {
	var single []string
	for _, s := range []struct {
		name  string
		state v1alpha1.Compliance
	}{{"throughput", c.Throughput}, {"latency", c.Latency}, {"availability", c.Availability}} {
		single = printers.Labelled(single, s.name+" ", string(s.state))
	}
	text := "Requirements: " + string(cmp.Or(c.Overall, v1alpha1.ComplianceUnknown))
	if len(single) > 0 {
		text += " (" + strings.Join(single, ", ") + ")"
	}
	if c.LastChecked != nil {
		text += ", checked " + o.Age(*c.LastChecked) + " ago"
	}
	return text
}
