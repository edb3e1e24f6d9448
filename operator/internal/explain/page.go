// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// maxEvents and maxEntries bound the numbers of events and entries that are shown.
const (
	maxEvents  = 8
	maxEntries = 10
)

// Explainer explains objects.
type Explainer struct {
	Client client.Reader
	Now    time.Time
}

// page is the page under construction.
type page struct {
	*Explainer
	o     *unstructured.Unstructured
	out   strings.Builder
	help  []string
	wrote bool // a fact was written
}

// Explain returns the page about an object.
func (e *Explainer) Explain(ctx context.Context, o *unstructured.Unstructured) string {
	p := &page{Explainer: e, o: o}
	p.writeHeading()
	p.writeFacts()
	p.entries()
	p.writeMade(ctx)
	p.writeEvents(ctx)
	p.commands()
	return p.out.String()
}

func (p *page) addLine(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func objectName(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// pods is the command that lists the pods of the operator.
const pods = "kubectl get pods -A -l app.kubernetes.io/name=okara-operator   # is it running?"

func (p *page) namespaceOption() string {
	if p.o.GetNamespace() == "" {
		return ""
	}
	return " -n " + p.o.GetNamespace()
}

func (p *page) kubectlRef() string {
	return strings.ToLower(p.o.GetKind()) + "." + p.o.GroupVersionKind().Group + "/" + p.o.GetName()
}

func (p *page) writeHeading() {
	all := fluxobj.Conditions(p.o)
	ready := all[v1alpha1.ConditionReady]
	switch {
	case ready == (fluxobj.Condition{}):
		p.addLine("%s: the operator has not processed it yet", objectName(p.o))
		p.help = append(p.help, pods, "with --watch, only the given namespaces are processed")
		if p.o.GetKind() == "Template" {
			p.help = append(p.help, "Templates are processed in only one namespace: okara-instances, or that of --instances-namespace")
		}
	case ready.True():
		p.addLine("%s is Ready since %s", objectName(p.o), p.ageSince(ready.Since))
	default:
		p.addLine("%s is not Ready: %s, since %s", objectName(p.o), ready.Reason, p.ageSince(ready.Since))
	}
	p.writeBlock(ready.Message)
	switch {
	case ready.Generation != 0 && ready.Generation != p.o.GetGeneration():
		p.addLine("  This is for generation %d; the object is at %d.", ready.Generation, p.o.GetGeneration())
		p.help = append(p.help, "if this persists: "+pods)
	case !ready.True() && needsDecision(ready.Reason):
		p.addLine("  It waits for an approval or a rejection.")
	case all[v1alpha1.ConditionStalled].True():
		p.addLine("  It stays like this until you change something.")
	case all[v1alpha1.ConditionReconciling].True():
		p.addLine("  The operator continues automatically.")
	}
	if p.o.GetDeletionTimestamp() != nil {
		p.addLine("  It is being deleted, but kept by %s.", cmp.Or(strings.Join(p.o.GetFinalizers(), ", "), "nothing"))
	}
	for _, kind := range []string{v1alpha1.ConditionWaiting, v1alpha1.ConditionAwaitingApproval, v1alpha1.ConditionDrifted, v1alpha1.ConditionUpdateAvailable} {
		if c := all[kind]; c.True() {
			p.addLine("  %s: %s", kind, text.Line(cmp.Or(c.Message, c.Reason)))
		}
	}
	if !ready.True() {
		p.help = append(p.help, helpOf(ready.Reason)...)
	}
}

func (p *page) ageSince(rfc3339 string) string {
	at, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		return "an unknown time"
	}
	return duration.HumanDuration(p.Now.Sub(at))
}

// writeBlock writes a multi-line text of another program.
func (p *page) writeBlock(s string) {
	for line := range strings.Lines(text.Head(s)) {
		p.addLine("    %s", strings.TrimRight(line, "\n"))
	}
}

// addFact writes a line about the object. An empty line precedes the first fact.
func (p *page) addFact(format string, args ...any) {
	if !p.wrote {
		p.wrote = true
		p.addLine("")
	}
	p.addLine("  "+format, args...)
}

// writeFacts writes the fields that most kinds have.
func (p *page) writeFacts() {
	for _, f := range []struct {
		label string
		path  []string
	}{
		{"phase", []string{"status", "phase"}}, {"address", []string{"spec", "address"}}, {"source", []string{"spec", "source"}},
		{"versions", []string{"spec", "versions"}}, {"latest", []string{"status", "latest"}}, {"template", []string{"spec", "template"}},
		{"version", []string{"status", "module", "version"}}, {"newer", []string{"status", "updateAvailable"}}, {"state", []string{"status", "state"}}, {"digest", []string{"status", "digest"}},
		{"result", []string{"status", "result"}}, {"expires", []string{"status", "expiresAt"}}, {"url", []string{"status", "url"}},
		{"refused", []string{"status", "handled", "refused"}}, {"asked", []string{"status", "lastHandledRequest"}},
	} {
		if v := fluxobj.Text(p.o, f.path...); v != "" {
			p.addFact("%-10s %s", f.label, text.Line(v))
		}
	}
	if suspended, _, _ := unstructured.NestedBool(p.o.Object, "spec", "suspend"); suspended {
		p.addFact("%-10s by spec.suspend", "suspended")
	}
	plan := cmp.Or(fluxobj.Text(p.o, "status", "plan", "pending"), planOf(p.o), heldBack(p.o))
	if plan != "" {
		p.addFact("%-10s %s pending", "plan", plan)
		p.help = append(p.help, p.approvalSteps(plan)...)
	}
}

// planOf returns the plan of an Instance that waits for approval.
func planOf(o *unstructured.Unstructured) string {
	plan, _, _ := unstructured.NestedString(o.Object, "status", "plan")
	return plan
}

// heldBack returns the digest of a Version that waits for approval, or that a scan holds back.
func heldBack(o *unstructured.Unstructured) string {
	if ready := fluxobj.Conditions(o)[v1alpha1.ConditionReady]; o.GetKind() != "Version" || ready.Reason != v1alpha1.ReasonHeld {
		return ""
	}
	return fluxobj.Text(o, "status", "digest")
}

// entries writes the entries of a Depot that are not Ready.
func (p *page) entries() {
	list, _, _ := unstructured.NestedSlice(p.o.Object, "status", "entries")
	shown := 0
	for _, e := range list {
		m, _ := e.(map[string]any)
		reason, _ := m["reason"].(string)
		if reason == "" || shown == maxEntries {
			continue
		}
		shown++
		kind, _ := m["kind"].(string)
		child, _ := m["name"].(string)
		p.addFact("%s %s is not Ready: %s", kind, child, reason)
		p.help = append(p.help, fmt.Sprintf("okara-operator explain %s %s%s", strings.ToLower(kind), child, p.namespaceOption()))
	}
}

// kindsOfRuns lists the kinds of objects that runs consist of.
func kindsOfRuns() []string {
	return []string{
		"source.toolkit.fluxcd.io/v1/OCIRepositoryList", "source.toolkit.fluxcd.io/v1/HelmRepositoryList", "source.toolkit.fluxcd.io/v1/GitRepositoryList",
		"infra.contrib.fluxcd.io/v1alpha2/TerraformList", "helm.toolkit.fluxcd.io/v2/HelmReleaseList",
	}
}

// writeMade writes the objects that the operator created for the object, and their state.
func (p *page) writeMade(ctx context.Context) {
	ns := fluxobj.Text(p.o, "status", "namespace")
	if ns == "" {
		return
	}
	p.addLine("")
	p.addLine("It runs in namespace %s:", ns)
	uid := cmp.Or(fluxobj.Text(p.o, "status", "uid"), string(p.o.GetUID()))
	for _, kind := range kindsOfRuns() {
		list := &unstructured.UnstructuredList{}
		i := strings.LastIndex(kind, "/")
		list.SetAPIVersion(kind[:i])
		list.SetKind(kind[i+1:])
		err := p.Client.List(ctx, list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelUID: uid})
		switch {
		case meta.IsNoMatchError(err):
		case apierrors.IsForbidden(err):
			p.addLine("  %s: no permission to read these", strings.TrimSuffix(kind[i+1:], "List"))
		case err != nil:
			p.addLine("  %s: %s", strings.TrimSuffix(kind[i+1:], "List"), text.Excerpt(err.Error()))
		}
		for j := range list.Items {
			p.writeRun(&list.Items[j])
		}
	}
}

// writeRun writes the state of an object of Flux.
func (p *page) writeRun(o *unstructured.Unstructured) {
	ready := fluxobj.Conditions(o)["Ready"]
	says := cmp.Or(ready.Reason, "no controller has processed it: is its controller running?")
	switch {
	case o.GetDeletionTimestamp() != nil:
		says = "being deleted; " + says
	case fluxobj.Suspended(o):
		says = "suspended; " + says
	}
	p.addLine("  %s %s: %s", o.GetKind(), o.GetName(), says)
	if !ready.True() {
		p.writeBlock(ready.Message)
		p.help = append(p.help, fmt.Sprintf("kubectl describe %s.%s/%s -n %s", strings.ToLower(o.GetKind()), o.GroupVersionKind().Group, o.GetName(), o.GetNamespace()))
	}
}

func (p *page) writeEvents(ctx context.Context) {
	var list eventsv1.EventList
	if err := p.Client.List(ctx, &list, client.InNamespace(cmp.Or(p.o.GetNamespace(), "default"))); err != nil {
		p.addLine("")
		p.addLine("Its events cannot be read: %s", text.Excerpt(err.Error()))
		return
	}
	mine := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID != p.o.GetUID() })
	slices.SortFunc(mine, func(a, b eventsv1.Event) int { return lastOf(b).Compare(lastOf(a)) })
	if len(mine) == 0 {
		return
	}
	p.addLine("")
	p.addLine("Its last events:")
	for _, e := range mine[:min(len(mine), maxEvents)] {
		p.addLine("  %-5s %-8s %s: %s", duration.HumanDuration(p.Now.Sub(lastOf(e))), e.Type, e.Reason, text.Excerpt(e.Note))
	}
}

func lastOf(e eventsv1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.EventTime.IsZero() {
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// commands writes the commands that help, each once, filled in for the object.
func (p *page) commands() {
	if len(p.help) == 0 {
		return
	}
	p.addLine("")
	p.addLine("What to do:")
	fill := strings.NewReplacer("{in}", p.namespaceOption(), "{ref}", p.kubectlRef(), "{name}", p.o.GetName(), "{namespace}", p.o.GetNamespace())
	var printed []string
	for _, h := range p.help {
		if h = fill.Replace(h); !slices.Contains(printed, h) {
			printed = append(printed, h)
			p.addLine("  %s", h)
		}
	}
}

func (p *page) approvalSteps(plan string) []string {
	return []string{
		"create an Approval; read the plan first:",
		"  {apiVersion: okara.dev/v1alpha1, kind: Approval, metadata: {name: {name}-1, namespace: {namespace}},",
		fmt.Sprintf("   spec: {target: {kind: %s, name: {name}}, plan: %q, generation: %d, approver: YOU}}", p.o.GetKind(), plan, p.o.GetGeneration()),
	}
}
