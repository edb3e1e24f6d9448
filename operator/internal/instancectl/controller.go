// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/records"
)

const (
	// observeEvery is how often running attempts are checked.
	observeEvery = 2 * time.Second
	// An object whose write failed is tried again after minRetry, then less and less often.
	minRetry, maxRetry = time.Second, 10 * time.Minute
	// lookEvery is the longest pause between two reconciles.
	lookEvery = 10 * time.Minute
	// defaultConcurrency is how many attempts run at once.
	defaultConcurrency = 20
)

// Options configure a [Controller].
type Options struct {
	Settings
	Executor run.ClusterExecutor
	Operator string // namespace of the operator, which holds the records
	Modules  Modules
	Charts   Charts
	Tool     string // of tofu-controller's runner: opentofu, terraform, or "": not known
	// Installed returns an error if the cluster lacks what a Template needs; nil: no check.
	Installed   func(*v1alpha1.Template) error
	Clock       *Clock
	Concurrency int           // attempts at once; 0: 20
	Observe     time.Duration // how often running attempts are checked; 0: 2 s
}

// Controller runs the instances' lifecycle on the leader, one reconcile at a time.
type Controller struct {
	Options
	client  client.Client // reads from a cache
	live    client.Client // not cached
	machine *lifecycle.Machine
	catalog *Catalog
	events  events.EventRecorder
	overlay overlay
	pools   map[string]*lifecycle.Pool // as of the last reconcile; nil: there was none
	records records.Store
	saved   map[types.UID]saved
	retries *flowcontrol.Backoff // of objects whose last write failed, by UID
}

// NewController returns a controller that does nothing until [Controller.Reconcile].
func NewController(c, live client.Client, recorder events.EventRecorder, o Options) *Controller {
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.Observe = cmp.Or(o.Observe, observeEvery)
	if o.Clock == nil {
		o.Clock = &Clock{}
	}
	return &Controller{
		Options: o, client: c, live: live, machine: o.newMachine(), catalog: NewCatalog(c, o.Settings), events: recorder,
		records: records.Store{Client: live, Namespace: o.Operator}, retries: flowcontrol.NewBackOff(minRetry, maxRetry), saved: map[types.UID]saved{},
	}
}

// Setup adds the controllers of Templates and Instances; live must have no cache.
func Setup(mgr ctrl.Manager, live client.Client, o Options) error {
	c := NewController(mgr.GetClient(), live, mgr.GetEventRecorder("okara-operator"), o)
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.Namespace, Name: "instances"}}
	all := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if _, is := object.(*v1alpha1.Template); is && object.GetNamespace() != o.Namespace {
			return nil
		}
		return []reconcile.Request{request}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("instances").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&v1alpha1.Instance{}, all).Watches(&v1alpha1.Template{}, all).Watches(&v1alpha1.Approval{}, all).
		Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			wait, err := c.Reconcile(ctx)
			return reconcile.Result{RequeueAfter: wait}, err
		}))
	if err != nil || o.Modules == nil {
		return err
	}
	return (&resolver{mgr.GetClient(), o, live, c.events}).setup(mgr)
}

// Reconcile does what is due, and returns after how long more may be. After an error it must be
// called again.
func (c *Controller) Reconcile(ctx context.Context) (time.Duration, error) {
	p, err := c.beginReconcile(ctx)
	if err != nil {
		return 0, err
	}
	advanceAttempts(ctx, p)
	p.news = p.requests.applyAllRequests(p.objects)
	p.decide()
	p.decidePending()
	changed := p.writeResults(ctx)
	return p.nextDue(changed), ctx.Err()
}

// reconciliation is one reconcile of all objects.
type reconciliation struct {
	c         *Controller
	requests  *requests
	objects   []v1alpha1.Instance
	byID      map[string]*v1alpha1.Instance
	byKey     map[client.ObjectKey]*v1alpha1.Instance
	templates []v1alpha1.Template
	approvals []v1alpha1.Approval
	before    *lifecycle.Document                   // as read from the objects
	news      map[string]*v1alpha1.Handled          // of Instances with new requests, by ID
	decided   map[types.UID]v1alpha1.ApprovalStatus // of Approvals
	restored  map[types.UID]bool                    // Instances whose status was lost
	unread    map[string]types.UID                  // IDs of Instances whose record could not be loaded
	broken    map[string]error                      // Instances whose record cannot be read, by ID
	unkept    map[string]bool                       // Instances whose record could not be saved, by ID: no attempt of them begins
	active    bool                                  // an attempt runs, or an instance is being removed
	again     bool                                  // something could not be written
	retry     time.Duration                         // until the next try of what failed; 0: nothing did
}

func (c *Controller) beginReconcile(ctx context.Context) (*reconciliation, error) {
	p := &reconciliation{
		c: c, byKey: map[client.ObjectKey]*v1alpha1.Instance{}, decided: map[types.UID]v1alpha1.ApprovalStatus{},
		restored: map[types.UID]bool{}, unread: map[string]types.UID{}, unkept: map[string]bool{},
	}
	var instances v1alpha1.InstanceList
	var templates v1alpha1.TemplateList
	var approvals v1alpha1.ApprovalList
	for _, list := range []client.ObjectList{&instances, &templates, &approvals} {
		var in client.InNamespace // all that the cache has
		if list == client.ObjectList(&templates) {
			in = client.InNamespace(c.Namespace)
		}
		if err := c.client.List(ctx, list, in); err != nil {
			return nil, err
		}
	}
	p.objects = c.overlay.overlayWrites(instances.Items)
	p.templates = templates.Items
	p.approvals = approvals.Items
	restoreStatuses(ctx, p)
	var others []v1alpha1.Instance
	p.objects, p.byID, others = c.separateByID(p.objects, p.unread)
	for _, o := range p.byID {
		p.byKey[client.ObjectKeyFromObject(o)] = o
	}
	p.refuseTaken(ctx, others)
	if c.pools == nil {
		c.pools = poolsOf(p.templates)
	}
	now := c.Clock.Now()
	d, broken := buildDocument(p.objects, c.pools, lifecycle.Clock{At: now, Held: c.Clock.Held()})
	p.before = d
	p.broken = broken
	keepRecords(ctx, p)
	p.requests = &requests{c.catalog, c.machine, now, d}
	return p, nil
}

// decidePending carries out what is due by time and templates.
func (p *reconciliation) decidePending() {
	k := p.requests
	events, _ := k.doc.Pending(p.c.catalog, p.c.Concurrency, k.now)
	for _, e := range events {
		p.applyOwn(e)
	}
	for _, e := range p.c.machine.Outstanding(k.doc) {
		switch e.Kind {
		case lifecycle.Notify:
			p.reportNotice(e)
		case lifecycle.Archive: // a cluster keeps the object as long as it is needed
			p.applyOwn(lifecycle.Archived{ID: e.Ref.ID})
		case lifecycle.Remove:
			p.applyOwn(lifecycle.Removed{ID: e.Ref.ID})
		}
	}
}

// applyOwn applies an event of the operator itself; an event that does not fit is ignored.
func (p *reconciliation) applyOwn(e lifecycle.Event) { _ = p.requests.applyEvent(lifecycle.Actor{}, e) }

func (p *reconciliation) reportNotice(e lifecycle.Effect) {
	if o := p.byID[e.Ref.ID]; o != nil && !isReported(e.Notice.Kind) {
		p.c.events.Eventf(o, nil, "Normal", eventReason(e.Notice.Kind), "Live", "%s", noticeText(p.requests.doc.Records[e.Ref.ID], e.Notice))
	}
	p.applyOwn(lifecycle.Noticed{ID: e.Ref.ID, Notice: e.Notice.ID})
}

// isReported reports whether the conditions of an Instance report a notice, with an event.
func isReported(kind string) bool {
	return slices.Contains([]string{lifecycle.NoticeFailed, lifecycle.NoticeDestroyFailed, lifecycle.NoticeRejected}, kind)
}

func noticeText(r *lifecycle.Record, n lifecycle.Notice) string {
	what := strings.ReplaceAll(strings.Replace(n.Kind, "expires_", "expires in ", 1), "_", " ")
	if r == nil || r.Reason == "" {
		return what
	}
	return what + ": " + r.Reason
}

func eventReason(kind string) string { return string(phaseOf(lifecycle.Phase(kind))) }

// nextDue is after how long more may be due.
func (p *reconciliation) nextDue(changed bool) time.Duration {
	if changed || p.again {
		return time.Millisecond
	}
	wait := lookEvery
	if _, at := p.requests.doc.PendingIDs(p.requests.now); !at.IsZero() {
		wait = min(wait, max(at.Sub(p.requests.now), time.Millisecond))
	}
	if p.active {
		wait = min(wait, p.c.Observe)
	}
	if p.retry > 0 {
		wait = min(wait, p.retry)
	}
	p.c.pools = maps.Clone(p.requests.doc.Pools)
	return wait
}
