// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

const aboutRecordsGet = `Shows how a record stands, what was made of it and where its pods run, and where its functions answer.
READY is replicas that are ready of those that should be, of the record functions. PODS are spot/on-demand; "2?" after them are on
nodes whose type is not known.`

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

func newRecordsGet(o *options) *cobra.Command {
	cmd := o.aRecord("get", "How a record stands, and what was made of it", aboutRecordsGet,
		func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error {
			if o.output == asName {
				return o.showRecords(recordsOf([]v1alpha1.DeploymentRecord{*rec}), rec.Namespace)
			}
			p, err := o.parts(ctx, c, rec)
			if err != nil {
				return err
			}
			return o.showRecord(detailOf(p))
		})
	o.outputFlag(cmd, asJSON, asYAML, asName)
	return cmd
}

func detailOf(p *recordParts) *RecordDetail {
	rec := p.rec
	d := &RecordDetail{
		RecordStatus: recordOf(rec), DeploymentID: rec.Spec.DeploymentUnit.ID, Compliance: rec.Status.NFRCompliance,
		Conditions: notFine(rec.Status.Conditions), Tree: treeOf(p), Endpoints: []RecordEndpoint{},
	}
	for i := range rec.Status.Functions {
		if f := &rec.Status.Functions[i]; f.URL != "" {
			d.Endpoints = append(d.Endpoints, RecordEndpoint{Function: f.FunctionKey, URL: f.URL, Ready: f.Ready})
		}
	}
	if s := rec.Status.ODGM; s != nil && s.Address != "" {
		d.Endpoints = append(d.Endpoints, RecordEndpoint{URL: s.Address, Ready: s.Ready})
	}
	d.Notes = recordNotes([]RecordStatus{d.RecordStatus})
	return d
}

// notFine are the conditions that tell of something that is not as it should be, or not yet.
func notFine(all []metav1.Condition) (list []metav1.Condition) {
	for _, c := range all {
		fine := metav1.ConditionTrue
		if c.Type == v1alpha1.ConditionProgressing || c.Type == v1alpha1.ConditionDegraded {
			fine = metav1.ConditionFalse
		}
		if c.Status != fine {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return list
}

func (o *options) showRecord(d *RecordDetail) error {
	if done, err := o.printed(d); done {
		return err
	}
	o.say(d.headline())
	o.say(d.about())
	if d.Compliance != nil {
		o.say(o.complianceText(d.Compliance))
	}
	for _, c := range d.Conditions {
		o.say(fmt.Sprintf("%s is %s since %s ago, %s: %s", c.Type, c.Status, age(o.now(), c.LastTransitionTime.Time), c.Reason, c.Message))
	}
	fmt.Fprintln(o.Out)
	t := &table{header: []string{"RESOURCE", "READY", "PODS", "PENDING", "DETAIL"}}
	t.add("DeploymentRecord/"+d.Name, fmt.Sprintf("%d/%d", d.ReadyFunctions, d.Functions), "-", "-", string(d.Phase))
	rows(t, d.Tree, "")
	if err := t.write(o.Out, false); err != nil {
		return err
	}
	if len(d.Endpoints) > 0 {
		fmt.Fprintln(o.Out)
		urls := &table{header: []string{"FUNCTION", "READY", "URL"}}
		for _, e := range d.Endpoints {
			urls.add(cmp.Or(e.Function, "(ODGM)"), map[bool]string{true: "True", false: "False"}[e.Ready], e.URL)
		}
		if err := urls.write(o.Out, false); err != nil {
			return err
		}
	}
	for _, n := range d.Notes {
		o.warn("%s", n)
	}
	return nil
}

// say writes a sentence as a line of its own.
func (o *options) say(sentence string) {
	fmt.Fprintln(o.Out, strings.ReplaceAll(strings.TrimRight(sentence, ". "), "\n", " ")+".")
}

func (d *RecordDetail) headline() string {
	text := fmt.Sprintf("DeploymentRecord %s/%s is %s", d.Namespace, d.Name, d.Phase)
	if d.Message != "" && d.Message != string(d.Phase) {
		text += ": " + d.Message
	}
	return text
}

// about says what it is a record of.
func (d *RecordDetail) about() string {
	var parts []string
	if d.Class != "" {
		parts = append(parts, "class "+d.Class)
	}
	if d.DeploymentID != "" {
		parts = append(parts, fmt.Sprintf("deployment id %q", d.DeploymentID))
	}
	if d.Environment != "" {
		parts = append(parts, "environment "+d.Environment)
	}
	if d.Template != "" {
		parts = append(parts, "rendered with template "+d.Template)
	} else {
		parts = append(parts, "not rendered yet")
	}
	return upper(strings.Join(append(parts, "enforcement "+string(d.Enforcement)), ", "))
}

// complianceText is "Requirements: Violated (throughput Met, latency Violated), checked 2m ago".
func (o *options) complianceText(c *v1alpha1.NFRCompliance) string {
	var single []string
	for _, s := range []struct {
		name  string
		state v1alpha1.Compliance
	}{{"throughput", c.Throughput}, {"latency", c.Latency}, {"availability", c.Availability}} {
		if s.state != "" {
			single = append(single, s.name+" "+string(s.state))
		}
	}
	text := "Requirements: " + string(cmp.Or(c.Overall, v1alpha1.ComplianceUnknown))
	if len(single) > 0 {
		text += " (" + strings.Join(single, ", ") + ")"
	}
	if c.LastChecked != nil {
		text += ", checked " + age(o.now(), c.LastChecked.Time) + " ago"
	}
	return text
}
