// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// The rules file is a ConfigMap's key, which the front-end mounts.
const (
	RulesConfigMap = "okara-rules"
	RulesKey       = "rules.json"
)

// These bounds limit rules. A ConfigMap has at most 1 MiB.
const (
	maxRules      = 50        // per namespace
	maxRulesText  = 64 << 10  // bytes of the rules of a namespace
	maxRulesTotal = 900 << 10 // bytes of all rules
)

// rules writes all AccessRules into one file, whose limits they share.
type rules struct {
	client.Client
	Options
	reader client.Reader // not cached, for namespaces
	events events.EventRecorder
}

// Reconcile brings the file, and the status of each rule, up to date.
func (r *rules) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var list v1alpha1.AccessRuleList
	if err := r.List(ctx, &list); err != nil {
		return ctrl.Result{}, err
	}
	judged, err := r.judge(ctx, list.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.write(ctx, judged)
	taken, isTaken := asProblem(err)
	if err != nil && !isTaken {
		return ctrl.Result{}, err
	}
	for _, j := range judged {
		v := j.verdict()
		if v.State == verdict.Ready && isTaken {
			v = verdictOf(taken)
		}
		if err := dropPassing(r.describe(ctx, j.AccessRule, v)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// judged is an AccessRule and the rule it becomes in the file.
type judged struct {
	*v1alpha1.AccessRule
	rule access.Rule
	err  error // why it has no effect
}

func (j judged) verdict() verdict.Verdict {
	if j.err != nil {
		return verdictOf(j.err)
	}
	return verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "it is in the file that okara serve reads, and takes effect within two minutes"}
}

// judge decides which rules take effect, the oldest first.
func (r *rules) judge(ctx context.Context, list []v1alpha1.AccessRule) ([]judged, error) {
	var all []judged
	for i := range list {
		if o := &list[i]; o.DeletionTimestamp.IsZero() {
			all = append(all, judged{AccessRule: o})
		}
	}
	slices.SortFunc(all, func(a, b judged) int { return compareAge(a, b) })
	tenants := map[string][]string{} // addresses by namespace
	usage := usage{}
	for i := range all {
		j := &all[i]
		j.rule = ruleOf(j.AccessRule)
		j.err = r.check(ctx, j.rule, j.Namespace, tenants)
		if _, hopeless := asProblem(j.err); j.err != nil && !hopeless {
			return nil, j.err
		}
		if j.err == nil {
			j.err = usage.countRule(j.Namespace, j.rule)
		}
	}
	return all, nil
}

// ruleOf is a rule in the form that the front-end reads.
func ruleOf(o *v1alpha1.AccessRule) access.Rule {
	rule := access.Rule{Name: o.Namespace + "/" + o.Name, Issuer: o.Spec.Issuer, Groups: o.Spec.Groups}
	for name, glob := range o.Spec.Claims {
		if rule.Claims == nil {
			rule.Claims = map[string]string{}
		}
		rule.Claims[name] = string(glob)
	}
	for _, right := range o.Spec.Allow {
		if kind := strings.SplitN(string(right), ":", 3); len(kind) == 3 { // the schema requires three parts
			rule.Allow = append(rule.Allow, rights.Scope{Action: rights.Action(kind[0]), Kind: rights.Kind(kind[1]), Glob: kind[2]})
		}
	}
	return rule
}

// check returns a *verdict.Problem for a rule beyond a namespace's addresses, kept in tenants.
func (r *rules) check(ctx context.Context, rule access.Rule, namespace string, tenants map[string][]string) error {
	text, err := json.Marshal(access.RulesFile{Rules: []access.Rule{rule}})
	if err != nil {
		return err
	}
	if _, err := access.ParseRules(text); err != nil {
		return &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: err.Error()}
	}
	if rule.Issuer != "" && !slices.Contains(r.Issuers, rule.Issuer) {
		return &verdict.Problem{Reason: v1alpha1.ReasonIssuerUnknown, Message: fmt.Sprintf("okara serve has no issuer %s: an administrator can add it there, and as --issuer of the operator", rule.Issuer)}
	}
	for i, scope := range rule.Allow {
		if !artifactRight(scope) {
			return &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: fmt.Sprintf("spec.allow[%d]: a rule can only grant read and publish of module, provider and mirror", i)}
		}
		if isWithinAddresses(scope, r.ownAddresses(namespace)) {
			continue // allowed even without the annotation
		}
		may, known := tenants[namespace]
		if !known {
			ns, err := fluxobj.Namespace(ctx, r.reader, namespace)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			may = r.addresses(ns)
			tenants[namespace] = may
		}
		if !isWithinAddresses(scope, may) {
			return &verdict.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: fmt.Sprintf("spec.allow[%d]: %s", i, notAllowed(namespace, may))}
		}
	}
	return nil
}

// artifactRight reports whether a right is of a kind that a namespace can grant.
func artifactRight(s rights.Scope) bool {
	return slices.Contains([]rights.Action{rights.Read, rights.Publish}, s.Action) &&
		slices.Contains([]rights.Kind{addr.KindModule, addr.KindProvider, addr.KindMirror}, s.Kind)
}

func isWithinAddresses(s rights.Scope, addresses []string) bool {
	return slices.ContainsFunc(addresses, func(rule string) bool {
		kind, glob, _ := strings.Cut(rule, ":")
		return kind == string(s.Kind) && s.Within(glob)
	})
}

// usage counts rules and their bytes, by namespace; "" is for all.
type usage map[string]struct{ rules, bytes int }

// countRule counts a rule; the error is a *verdict.Problem if a limit is reached.
func (u usage) countRule(namespace string, rule access.Rule) error {
	text, err := json.Marshal(access.RulesFile{Rules: []access.Rule{rule}})
	if err != nil {
		return err
	}
	own, all := u[namespace], u[""]
	own.rules++
	own.bytes += len(text)
	all.bytes += len(text)
	switch {
	case own.rules > maxRules || own.bytes > maxRulesText:
		return &verdict.Problem{Reason: v1alpha1.ReasonTooManyRules, Message: fmt.Sprintf("namespace %s may have %d rules of %d KiB in total, which older ones use up", namespace, maxRules, maxRulesText>>10)}
	case all.bytes > maxRulesTotal:
		return &verdict.Problem{Reason: v1alpha1.ReasonTooManyRules, Message: fmt.Sprintf("rules may have %d KiB in total, which older ones use up", maxRulesTotal>>10)}
	}
	u[namespace] = own
	u[""] = all
	return nil
}

// fileOf returns the file of the valid rules, sorted by name.
func fileOf(all []judged) (string, error) {
	var file access.RulesFile
	for _, j := range all {
		if j.err == nil {
			file.Rules = append(file.Rules, j.rule)
		}
	}
	slices.SortFunc(file.Rules, func(a, b access.Rule) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(file)
	return string(text), err
}

// write writes a changed file; a ConfigMap without okara's label is a *verdict.Problem.
func (r *rules) write(ctx context.Context, all []judged) error {
	text, err := fileOf(all)
	if err != nil {
		return err
	}
	var is corev1.ConfigMap
	err = r.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: RulesConfigMap}, &is)
	if apierrors.IsNotFound(err) {
		return r.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: RulesConfigMap, Labels: map[string]string{v1alpha1.LabelManaged: ""}},
			Data:       map[string]string{RulesKey: text},
		})
	}
	switch {
	case err != nil:
		return err
	case !isMade(&is):
		return &verdict.Problem{Reason: v1alpha1.ReasonNameTaken, Message: fmt.Sprintf("ConfigMap %s/%s exists and is not okara's: delete or rename it", r.Namespace, RulesConfigMap)}
	case len(is.Data) == 1 && is.Data[RulesKey] == text && len(is.BinaryData) == 0:
		return nil
	}
	is.Data = map[string]string{RulesKey: text}
	is.BinaryData = nil
	return r.Update(ctx, &is)
}

// describe writes the status of a rule if it changed, and makes an event of a refusal.
func (r *rules) describe(ctx context.Context, o *v1alpha1.AccessRule, v verdict.Verdict) error {
	return verdict.Update(ctx, r.Client, o, func() {
		o.Status.ObservedGeneration = o.Generation
		v.Say(r.events, o, &o.Status.Conditions)
	})
}

// rulesPause is how long a change waits for others, so that the file is written once.
const rulesPause = time.Second

// Cached limits what a manager caches: of ConfigMaps only its own.
func Cached(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector(metav1.ObjectNameField, RulesConfigMap),
	}}
}

// setup makes every relevant change queue one and the same request.
func (r *rules) setup(mgr ctrl.Manager) error {
	all := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: RulesConfigMap}}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := func(q queue) { q.AddAfter(all, rulesPause) }
	wake := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { later(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { later(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { later(q) },
	}
	return ctrl.NewControllerManagedBy(mgr).Named("accessrule").WithOptions(controller.Options{RateLimiter: newRateLimiter()}).
		Watches(&v1alpha1.AccessRule{}, wake, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, wake).
		WatchesMetadata(fluxobj.NamespaceMeta(""), wake, builder.WithPredicates(rightsChanged())).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			later(q) // there may be no AccessRule, but the front-end needs the file
			return nil
		})).
		Complete(r)
}
