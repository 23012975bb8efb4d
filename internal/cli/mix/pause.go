// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/rebalance"
)

const aboutPause = `Stops the moves of replicas: of one CapacityMix, of a namespace, or of the whole cluster. Nothing more is evicted until %[1]sresume%[1]s, also
after a restart of berth-controller. Moves in progress are completed, placeholder pods are deleted, and new pods are placed as usual.

A CapacityMix gets spec.rebalance.paused, a Namespace the annotation berth.dev/paused, and the cluster the same annotation on the ConfigMap
berth-controller-pause in the namespace of Berth. Who paused, when and why is in annotations, in the status of the mixes and in events.`

const pauseExamples = `  # Stop the moves of one mix
  kubectl berth pause mix/web -n shop --reason "load test until noon"

  # Stop the moves of a namespace
  kubectl berth pause -n shop

  # Stop all moves
  kubectl berth pause --cluster --reason "incident 4711"`

const aboutResume = `Ends a pause of %[1]skubectl berth pause%[1]s, and names the pauses that remain: a mix moves again once neither the mix, nor its namespace, nor the
cluster is paused.`

const resumeExamples = `  kubectl berth resume mix/web -n shop
  kubectl berth resume -n shop
  kubectl berth resume --cluster`

// pauseOwner is the field manager of what the commands write.
const pauseOwner = "kubectl-berth-pause"

// maxReason bounds --reason: longer texts are cut off where they are shown.
const maxReason = 200

// pauseFlags are the flags of pause and resume.
type pauseFlags struct {
	cluster        bool
	reason, dryRun string
}

// NewPause returns the command pause.
func NewPause(o *command.Options) *cobra.Command {
	f := &pauseFlags{}
	cmd := pauseCommand(o, f, "pause", "Stop the moves of a mix, a namespace or the cluster", aboutPause, pauseExamples)
	cmd.Flags().StringVar(&f.reason, "reason", "", "Why moves are paused. It is shown with the pause.")
	command.Check(cmd, func() error {
		if len(f.reason) > maxReason {
			return fmt.Errorf("--reason has %d bytes: it must have at most %d", len(f.reason), maxReason)
		}
		return nil
	})
	return cmd
}

// NewResume returns the command resume.
func NewResume(o *command.Options) *cobra.Command {
	return pauseCommand(o, &pauseFlags{}, "resume", "End a pause of moves", aboutResume, resumeExamples)
}

func pauseCommand(o *command.Options, f *pauseFlags, name, short, long, examples string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " (mix/NAME | -n NAMESPACE | --cluster)", Short: short, Long: fmt.Sprintf(long, "`"), Example: examples,
		Args: command.Names(0, 1), ValidArgsFunction: completeMixes(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPause(cmd.Context(), o, f, args, name == "pause")
		},
	}
	cmd.Flags().BoolVar(&f.cluster, "cluster", false, "All mixes of the cluster.")
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// completeMixes completes mix/NAME.
func completeMixes(o *command.Options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && !strings.Contains(prefix, "/") {
			return []string{"mix/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return o.CompleteTargets(nil)(cmd, args, prefix)
	}
}

// PauseResult is what pause and resume show.
type PauseResult struct {
	Scope     rebalance.PauseScope `json:"scope"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name,omitempty"`
	Paused    bool                 `json:"paused"`
	// Changed is false where it was so before.
	Changed bool `json:"changed"`
	DryRun  bool `json:"dryRun,omitempty"`
	// By, Since and Reason are those of the pause that is there, or was.
	By     string       `json:"by,omitempty"`
	Since  *metav1.Time `json:"since,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Others are the other pauses that its mixes are under, or that are within it.
	Others []OtherPause `json:"others,omitempty"`
	// Unread is what could not be read of the others.
	Unread string `json:"unread,omitempty"`
	// ended is the pause that was there.
	ended string
}

// OtherPause is another pause.
type OtherPause struct {
	Scope rebalance.PauseScope `json:"scope"`
	// Namespace is that of a mix.
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name,omitempty"`
	By        string       `json:"by,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	text      string
}

func otherPause(namespace string, p *rebalance.Pause) OtherPause {
	o := OtherPause{Scope: p.Scope, Namespace: namespace, Name: p.Name, By: p.By, Since: timeOf(p.Since), Reason: p.Why, text: p.String()}
	if namespace != "" {
		named := *p
		named.Name = namespace + "/" + p.Name
		o.text = named.String()
	}
	return o
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

// pausable is what a command pauses or resumes.
type pausable struct {
	scope  rebalance.PauseScope
	object client.Object
	// there is set where the object exists.
	there bool
}

// pausableOf reads what the arguments name.
func pausableOf(ctx context.Context, o *command.Options, u *live.User, f *pauseFlags, namespace string, args []string) (*pausable, error) {
	p := &pausable{}
	switch {
	case f.cluster && len(args) > 0:
		return nil, errors.New("either --cluster or mix/NAME is required, and not both")
	case f.cluster && o.GivenNamespace() != "":
		return nil, errors.New("either --cluster or --namespace is required, and not both")
	case f.cluster:
		p.scope, p.object = rebalance.PausedCluster, &corev1.ConfigMap{}
		p.object.SetNamespace(u.SystemNamespace)
		p.object.SetName(live.PauseConfigMap)
	case len(args) > 0:
		name, err := mixOfTarget(u, args[0])
		if err != nil {
			return nil, err
		}
		p.scope, p.object = rebalance.PausedMix, &v1alpha1.CapacityMix{}
		p.object.SetNamespace(namespace)
		p.object.SetName(name)
	case o.GivenNamespace() == "":
		return nil, errors.New("mix/NAME, -n NAMESPACE or --cluster is required: the namespace of the kubeconfig is not paused without -n")
	default:
		p.scope, p.object = rebalance.PausedNamespace, &corev1.Namespace{}
		p.object.SetName(namespace)
	}
	err := u.Client.Get(ctx, client.ObjectKeyFromObject(p.object), p.object)
	p.there = err == nil
	if p.scope == rebalance.PausedCluster {
		err = client.IgnoreNotFound(err)
	}
	return p, err
}

// mixOfTarget returns the name in mix/NAME.
func mixOfTarget(u *live.User, arg string) (string, error) {
	target, err := command.TargetOf(arg)
	switch {
	case err != nil:
		return "", err
	case target.Kind == "":
		return "", fmt.Errorf("%q must be mix/NAME", arg)
	}
	if kind, err := u.Kind(target.Kind); err != nil || kind != "CapacityMix" {
		return "", errors.Join(err, fmt.Errorf("%q must be mix/NAME: only a CapacityMix, a namespace or the cluster can be paused", arg))
	}
	return target.Name, nil
}

// pause is the one that is there, nil if there is none.
func (p *pausable) pause() *rebalance.Pause {
	paused, name := rebalance.IsPaused(p.object), p.object.GetName()
	switch cm, is := p.object.(*v1alpha1.CapacityMix); {
	case is:
		paused = cm.Spec.Rebalance != nil && cm.Spec.Rebalance.Paused
	case p.scope == rebalance.PausedCluster:
		name = ""
	}
	if !paused {
		return nil
	}
	return new(rebalance.PauseOf(p.scope, name, p.object))
}

// set begins a pause, or ends it with nil.
func (p *pausable) set(ctx context.Context, c client.Client, with *rebalance.Pause) error {
	before := p.object.DeepCopyObject().(client.Object)
	notes := p.object.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	put := func(key, value string) {
		if notes[key] = value; value == "" {
			delete(notes, key)
		}
	}
	pause := rebalance.Pause{}
	if with != nil {
		pause = *with
		put(v1alpha1.PausedAtAnnotation, pause.Since.UTC().Format(time.RFC3339))
	} else {
		put(v1alpha1.PausedAtAnnotation, "")
	}
	put(v1alpha1.PausedByAnnotation, pause.By)
	put(v1alpha1.PausedReasonAnnotation, pause.Why)
	if cm, is := p.object.(*v1alpha1.CapacityMix); is {
		if cm.Spec.Rebalance == nil {
			cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{}
		}
		cm.Spec.Rebalance.Paused = with != nil
	} else {
		put(v1alpha1.PausedAnnotation, map[bool]string{true: "true"}[with != nil])
	}
	p.object.SetAnnotations(notes)
	if p.there {
		return c.Patch(ctx, p.object, client.MergeFrom(before))
	}
	// Server-side apply creates it: a Role can allow that for its name alone.
	p.object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	p.object.SetLabels(map[string]string{"app.kubernetes.io/part-of": "berth"})
	//nolint:staticcheck // its successor takes generated types or unstructured objects
	return c.Patch(ctx, p.object, client.Apply, client.ForceOwnership)
}

func runPause(ctx context.Context, o *command.Options, f *pauseFlags, args []string, begin bool) error {
	namespace, u, err := access.User(o)
	if err != nil {
		return err
	}
	p, err := pausableOf(ctx, o, u, f, namespace, args)
	if err != nil {
		return err
	}
	r := &PauseResult{Scope: p.scope, Name: p.object.GetName(), Paused: begin, DryRun: command.IsDryRun(f.dryRun)}
	switch p.scope {
	case rebalance.PausedMix:
		r.Namespace = namespace
	case rebalance.PausedCluster:
		r.Name = ""
	}
	writer := command.Writer(u.Client, f.dryRun, pauseOwner)
	if begin {
		err = r.begin(ctx, p, writer, rebalance.Pause{
			Scope: p.scope, Name: r.Name, By: userName(ctx, u.Client), Why: f.reason, Since: o.Now().Truncate(time.Second),
		})
	} else {
		err = r.end(ctx, p, writer)
		r.addOthers(ctx, u)
	}
	if err != nil {
		return err
	}
	return showPause(o, f, r)
}

// begin pauses. What is paused already gets another reason only.
func (r *PauseResult) begin(ctx context.Context, p *pausable, c client.Client, with rebalance.Pause) error {
	is := p.pause()
	if r.Changed = is == nil || with.Why != ""; r.Changed {
		if is != nil {
			with.By, with.Since = is.By, is.Since
		}
		is = &with
		if err := p.set(ctx, c, is); err != nil {
			return err
		}
	}
	r.show(is)
	return nil
}

// end ends a pause, if there is one.
func (r *PauseResult) end(ctx context.Context, p *pausable, c client.Client) error {
	is := p.pause()
	if is == nil {
		return nil
	}
	r.Changed = true
	r.show(is)
	return p.set(ctx, c, nil)
}

func (r *PauseResult) show(p *rebalance.Pause) {
	r.By, r.Since, r.Reason, r.ended = p.By, timeOf(p.Since), p.Why, p.String()
}

// userName is the name that the API server has for the user, "" if it has none to say.
func userName(ctx context.Context, c client.Client) string {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "" // the field manager is recorded all the same
	}
	return review.Status.UserInfo.Username
}

// addOthers adds the other pauses that concern the same mixes.
func (r *PauseResult) addOthers(ctx context.Context, u *live.User) {
	var unread []string
	failed := func(what string, err error) {
		if why := live.Unread(what, err); why != "" {
			unread = append(unread, why)
		}
	}
	if r.Scope != rebalance.PausedCluster {
		p, err := u.ClusterPause(ctx, u.Client)
		failed("whether the cluster is paused", err)
		r.other("", p)
	}
	inside := r.Name
	switch r.Scope {
	case rebalance.PausedMix:
		p, err := live.NamespacePause(ctx, u.Client, r.Namespace)
		failed("whether namespace "+r.Namespace+" is paused", err)
		r.other("", p)
		r.Unread = strings.Join(unread, "; ")
		return
	case rebalance.PausedCluster:
		inside = ""
		var all corev1.NamespaceList
		failed("which namespaces are paused", u.Client.List(ctx, &all))
		for i := range all.Items {
			p := &pausable{scope: rebalance.PausedNamespace, object: &all.Items[i]}
			r.other("", p.pause())
		}
	}
	var mixes v1alpha1.CapacityMixList
	failed("which mixes are paused", u.Client.List(ctx, &mixes, client.InNamespace(inside)))
	for i := range mixes.Items {
		p := &pausable{scope: rebalance.PausedMix, object: &mixes.Items[i]}
		r.other(mixes.Items[i].Namespace, p.pause())
	}
	r.Unread = strings.Join(unread, "; ")
}

func (r *PauseResult) other(namespace string, p *rebalance.Pause) {
	if p != nil {
		r.Others = append(r.Others, otherPause(namespace, p))
	}
}

// mostOthers bounds what a sentence names.
const mostOthers = 5

func showPause(o *command.Options, f *pauseFlags, r *PauseResult) error {
	if done, err := o.Print(r); done {
		return err
	}
	name := map[rebalance.PauseScope]string{
		rebalance.PausedMix: "capacitymix.berth.dev/" + r.Name, rebalance.PausedNamespace: "namespace/" + r.Name, rebalance.PausedCluster: "cluster",
	}[r.Scope]
	verb := map[bool]string{true: "paused", false: "resumed"}[r.Paused]
	switch {
	case r.Changed:
		fmt.Fprintf(o.Out, "%s %s%s\n", name, verb, command.DryRunText(f.dryRun))
	case r.Paused:
		fmt.Fprintf(o.Out, "%s was paused already: %s\n", name, r.ended)
	default:
		fmt.Fprintf(o.Out, "%s was not paused\n", name)
	}
	for i := range r.Others[:min(len(r.Others), mostOthers)] {
		fmt.Fprintf(o.Out, "still paused: %s\n", r.Others[i].text)
	}
	if more := len(r.Others) - mostOthers; more > 0 {
		fmt.Fprintf(o.Out, "still paused: %d more (-o yaml lists all)\n", more)
	}
	if r.Unread != "" {
		o.Warn("%s", r.Unread)
	}
	return nil
}
