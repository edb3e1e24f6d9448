// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/semaphore"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const maxPulls = 32

const (
	// maxPulled bounds the total size of the files of these packages on disk.
	maxPulled = 8 << 30
	// minPulled is how many bytes of a package, or all, an origin must send within stallTimeout.
	minPulled = 256 << 10
)

// pulls holds the packages being fetched, each once for all clients, independent of any request.
type pulls struct {
	limiter *service.ClientLimiter // one per package
	disk    *semaphore.Weighted    // bytes of their files

	mu      sync.Mutex         // guards running
	running map[string]*pulled // repository@hex
}

// pulled is a package that is being fetched. size, spool and err are set when opened is closed.
type pulled struct {
	version string // the version that it belongs to
	opened  chan struct{}
	done    chan struct{} // closed when the package is in the registry, or given up

	size  int64
	spool *cache.Spool
	err   error

	reserved int64 // bytes of pulls.disk that its file uses; accessed only by the fetching goroutine
}

// findArchive finds a blob that a link names and that the registry lacks: a package, which is
// fetched, or a file of the version's proof, then in memory.
func (p *pullThrough) findArchive(ctx context.Context, client netip.Prefix, b blobName) (oci.Descriptor, *pulled, error) {
	none := fmt.Errorf("archive %s: %w", b.File, oci.ErrNotFound)
	if p == nil {
		return oci.Descriptor{}, nil, none
	}
	a, v, ok := p.parseLink(b)
	if !ok {
		return oci.Descriptor{}, nil, none
	}
	rule, ok := p.rule(a)
	if !ok {
		return oci.Descriptor{}, nil, none
	}
	r, err := p.release(ctx, rule, a, v)
	if err != nil {
		return oci.Descriptor{}, nil, err
	}
	d := oci.Descriptor{MediaType: artifact.MediaZip, Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex)}
	for _, small := range [][]byte{r.version.Meta.ShasumsBytes, r.version.Meta.SignatureBytes} {
		if len(small) > 0 && digest.FromBytes(small) == d.Digest {
			p.catalog.Blobs.KeepBytes(b.Repository, b.Hex, small)
			d.Size = int64(len(small))
			return d, nil, nil
		}
	}
	for _, t := range r.version.Platforms {
		if t.Filename == b.File && t.Zh == b.Hex {
			f, err := p.fetch(ctx, client, b, r, t)
			if err != nil {
				return oci.Descriptor{}, nil, err
			}
			d.Size = f.size
			return d, f, nil
		}
	}
	return oci.Descriptor{}, nil, none
}

// parseLink parses a link's provider and version. Only a verified release confirms its file name.
func (p *pullThrough) parseLink(b blobName) (addr.Provider, addr.Version, bool) {
	item, ok := p.layout.Parse(b.Repository)
	if !ok || item.Kind != addr.KindMirror {
		return addr.Provider{}, addr.Version{}, false
	}
	v, _, ok := signing.SplitPackageName(item.Provider, b.File)
	return item.Provider, v, ok
}

// fetch joins or starts the fetch of a package and returns when its size is known, at once if it is
// in the registry by now. Until its end the fetch occupies a slot of the client that started it.
func (p *pullThrough) fetch(ctx context.Context, client netip.Prefix, b blobName, r *originRelease, t artifact.ProviderPlatform) (*pulled, error) {
	key := b.Repository + "@" + b.Hex
	p.packages.mu.Lock()
	f, ok := p.packages.running[key]
	if !ok {
		if size, stored := p.catalog.Blobs.KnownSize(b.Repository, b.Hex); stored {
			p.packages.mu.Unlock()
			return &pulled{size: size}, nil
		}
		release, ok := p.packages.limiter.Acquire(client, 1)
		if !ok {
			p.packages.mu.Unlock()
			return nil, service.TooMany("packages from origins")
		}
		f = &pulled{version: pullVersion(r.release.Provider, r.release.Version), opened: make(chan struct{}), done: make(chan struct{})}
		p.packages.running[key] = f
		go func() {
			defer release()
			p.completeFetch(context.WithoutCancel(ctx), key, b, f, r, t)
		}()
	}
	p.packages.mu.Unlock()
	select {
	case <-f.opened:
		return f, f.err
	case <-ctx.Done():
		return nil, originError(context.Cause(ctx))
	}
}

func pullVersion(p addr.Provider, v addr.Version) string { return p.String() + " " + v.String() }

// completeFetch runs to its end even if all clients have left.
func (p *pullThrough) completeFetch(ctx context.Context, key string, b blobName, f *pulled, r *originRelease, t artifact.ProviderPlatform) {
	err := recoverPanic(func() error {
		if err := p.receive(ctx, f, r, t); err != nil {
			return err
		}
		return p.storePackage(ctx, b, f, r)
	})
	p.packages.disk.Release(f.reserved)
	p.packages.mu.Lock()
	defer p.packages.mu.Unlock()
	delete(p.packages.running, key)
	close(f.done)
	if err != nil {
		p.log.Warn("pull-through: package not stored", "provider", r.release.Provider.String(), "version", r.release.Version.String(), "platform", t.Platform.String(), "error", err)
	}
}

// recoverPanic turns a panic, which would end the process outside of net/http, into an error.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// receive writes a package to a file, which the clients follow: if the origin does not announce the
// size, at its end, since a broken download would look complete.
func (p *pullThrough) receive(ctx context.Context, f *pulled, r *originRelease, t artifact.ProviderPlatform) error {
	ready := sync.OnceFunc(func() { close(f.opened) })
	defer ready()
	f.err = fmt.Errorf("%s was not fetched: %w", t.Filename, oci.ErrUnavailable) // until it is fetched
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.stall, func() { cancel(fmt.Errorf("less than %d bytes in %s", minPulled, p.stall)) })
	defer watch.Stop()
	body, size, err := r.release.Open(ctx, t)
	if err != nil {
		f.err = originError(err)
		return err
	}
	defer body.Close()
	watch.Reset(p.stall)
	sp, err := cache.TempSpool(t.Zh)
	if err != nil {
		f.err = err
		return err
	}
	f.spool = sp
	if size > 0 {
		f.size = size
		f.err = nil
		ready()
	}
	err = cache.Pump(sp, body, func(n int) error {
		if !p.packages.disk.TryAcquire(int64(n)) {
			return &service.Error{Status: http.StatusServiceUnavailable, Text: "too many bytes of packages are being fetched from origins"}
		}
		if f.reserved += int64(n); f.reserved/minPulled > (f.reserved-int64(n))/minPulled {
			watch.Reset(p.stall)
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = sp.Finish(err); errors.Is(err, oci.ErrCorrupt) {
		p.metrics.mismatch.Inc()
		// The origin sends bytes that do not match its signed hash.
		p.releases.Put(pullVersion(r.release.Provider, r.release.Version), &originRelease{err: err})
	}
	if size <= 0 {
		f.size = sp.Written()
		f.err = nil
		if err != nil {
			f.err = originError(err)
		}
	}
	return err
}

// storePackage moves a package from its file to the registry, after recording the job that
// completes its version, also after a crash.
func (p *pullThrough) storePackage(ctx context.Context, b blobName, f *pulled, r *originRelease) (err error) {
	defer func() { err = errors.Join(err, f.spool.Discard()) }()
	if err := p.enqueue(ctx, r.release.Provider, r.release.Version); err != nil {
		return err
	}
	repo, err := p.client.Repo(b.Repository)
	if err != nil {
		return err
	}
	d := oci.Descriptor{MediaType: artifact.MediaZip, Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: f.spool.Written()}
	if _, err := repo.EnsureBlob(ctx, oci.Blob{Descriptor: d, Open: func() (io.ReadCloser, error) { return f.spool.Open() }}); err != nil {
		return err
	}
	p.catalog.Blobs.KeepSize(b.Repository, d)
	return nil
}

// jobPull completes a version of which a client requested a package.
const jobPull = jobs.KindPull

// enqueue records that job, at most once a day: it may have used up its attempts, or be parked.
func (p *pullThrough) enqueue(ctx context.Context, a addr.Provider, v addr.Version) error {
	id := jobPull + " " + pullVersion(a, v) + " " + p.now().UTC().Format(time.DateOnly)
	_, err := p.queue.Add(ctx, id, jobs.Job{Kind: jobPull, Data: map[string]string{"provider": a.String(), "version": v.String()}})
	return err
}

// resume records the job again for an incomplete version with packages in the registry: its last
// job failed, or it was removed. The clients need no further package of it.
func (p *pullThrough) resume(ctx context.Context, r *originRelease) {
	here := slices.ContainsFunc(r.version.Platforms, func(t artifact.ProviderPlatform) bool {
		_, ok := p.catalog.Blobs.KnownSize(r.version.Repository, t.Zh)
		return ok
	})
	if here && r.resumed.CompareAndSwap(false, true) {
		p.restore(ctx, r.release.Provider, r.release.Version)
	}
}

// restore records the job for a version of which the registry lacks parts, if a rule allows it.
func (p *pullThrough) restore(ctx context.Context, a addr.Provider, v addr.Version) {
	if rule, ok := p.rule(a); !ok || !rule.Versions.Allows(v) {
		return
	}
	if err := p.enqueue(ctx, a, v); err != nil {
		p.log.Warn("pull-through: job not recorded", "provider", a.String(), "version", v.String(), "error", err)
	}
}

// runPullJob stores the version with all platforms of the rule, as `okara mirror` does.
func (p *pullThrough) runPullJob(ctx context.Context, j jobs.Job) (string, error) {
	a, err := addr.ParseProvider(j.Data["provider"])
	if err != nil {
		return "", jobs.Permanent(err)
	}
	v, err := addr.ParseVersion(j.Data["version"])
	if err != nil {
		return "", jobs.Permanent(err)
	}
	rule, ok := p.rule(a)
	if !ok || !rule.Versions.Allows(v) {
		return "", jobs.Permanent(fmt.Errorf("provider %s %s: no pull_through rule allows it", a, v))
	}
	if err := p.packages.waitUntilIdle(ctx, pullVersion(a, v)); err != nil {
		return "", err
	}
	r, err := p.release(ctx, rule, a, v)
	if err != nil {
		return "", err
	}
	out, err := p.depot.MirrorRelease(ctx, r.release, rule.Mirror)
	p.recordMirrored(ctx, rule, a, v, out.Digest, err)
	if err != nil {
		return "", err
	}
	p.catalog.Changed(p.layout.MirrorOf(a), v.Tag())
	return out.String(), nil
}

// waitUntilIdle waits while this process fetches packages of a version, lest the job do so, too.
func (p *pulls) waitUntilIdle(ctx context.Context, version string) error {
	for {
		var busy *pulled
		p.mu.Lock()
		for _, f := range p.running {
			if f.version == version {
				busy = f
			}
		}
		p.mu.Unlock()
		if busy == nil {
			return nil
		}
		select {
		case <-busy.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recordMirrored records that a version was pulled through, a change that no client made.
func (p *pullThrough) recordMirrored(ctx context.Context, rule PullRule, a addr.Provider, v addr.Version, stored string, err error) {
	result := "done"
	status := http.StatusCreated
	if err != nil {
		status, _ = classifyError(err)
		result = http.StatusText(status)
	}
	p.metrics.publish.WithLabelValues(addr.KindMirror, result).Inc()
	if p.audit == nil {
		return
	}
	p.audit.LogAttrs(ctx, slog.LevelInfo, "change",
		slog.String("action", "publish"), slog.String("kind", addr.KindMirror), slog.String("address", a.String()),
		slog.String("version", v.String()), slog.String("digest", stored),
		slog.String("decision", "allowed"), slog.String("rule", rule.Providers), slog.String("mode", jobPull), slog.Int("status", status), slog.String("outcome", access.Outcome(status)))
}
