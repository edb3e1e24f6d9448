// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// Bounds of the publication of a provider.
const (
	maxProviderFile    = 1 << 30
	maxProviderRequest = 1 << 20
	maxKnownRequest    = 1 << 10
	maxReceipts        = 100
)

// A receipt is signed proof that a file was uploaded to the repository of one
// version. It is good at every replica, so an upload can be taken up again.
const (
	receiptDomain = "okara-upload-v1"
	receiptTTL    = 24 * time.Hour
)

// fileName is a file of a release as GoReleaser names them, or SHA256SUMS alone.
var fileName = regexp.MustCompile(`^(terraform-(provider|registry)[A-Za-z0-9._+-]{1,200}|SHA256SUMS(\.sig)?)$`)

// uploadFile stores one file of a release as a blob of its repository.
// Nothing refers to it until the version is published.
func (s *server) uploadFile(w http.ResponseWriter, r *http.Request) error {
	name, repository, err := s.uploadOf(r)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "okara-upload-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	size, sum, err := receive(r, file, maxProviderFile)
	if err != nil {
		return err
	}
	if err := checkContentDigest(r.Header.Get("Content-Digest"), sum); err != nil {
		return err
	}
	d := oci.Descriptor{MediaType: oci.MediaZip, Digest: digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum[:])), Size: size}
	repo, err := s.o.Client.Repo(repository)
	if err != nil {
		return err
	}
	blob := oci.Blob{Descriptor: d, Open: func() (io.ReadCloser, error) { return os.Open(file.Name()) }}
	if _, err := repo.EnsureBlob(r.Context(), blob); err != nil {
		return err
	}
	return s.writeReceipt(w, http.StatusCreated, upload{Repository: repository, File: name, Digest: d.Digest, Size: size})
}

// knownFile answers with a receipt for a file that the repository has already,
// so that a publication that was cut need not send it again. Only who may
// publish there is told.
func (s *server) knownFile(w http.ResponseWriter, r *http.Request) error {
	name, repository, err := s.uploadOf(r)
	if err != nil {
		return err
	}
	var in struct {
		Digest digest.Digest `json:"digest"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxKnownRequest)).Decode(&in); err != nil {
		return unprocessable(fmt.Errorf("read the request: %w", err))
	}
	repo, err := s.o.Client.Repo(repository)
	if err != nil {
		return err
	}
	d, err := repo.Stat(r.Context(), in.Digest)
	if err != nil {
		return missing(err, "file %s", name)
	}
	return s.writeReceipt(w, http.StatusOK, upload{Repository: repository, File: name, Digest: d.Digest, Size: d.Size})
}

// uploadOf returns the name of a file of a release and its repository.
func (s *server) uploadOf(r *http.Request) (name, repository string, err error) {
	if _, _, repository, _, err = s.releaseOf(r, "publish"); err != nil {
		return "", "", err
	}
	if name = r.PathValue("filename"); !fileName.MatchString(name) {
		return "", "", unprocessable(fmt.Errorf("%q is not the name of a file of a provider release", name))
	}
	return name, repository, nil
}

func (s *server) writeReceipt(w http.ResponseWriter, status int, u upload) error {
	u.Expires = s.now().Add(receiptTTL).Unix()
	receipt, err := s.links.receipt(u)
	if err != nil {
		return err
	}
	return writeDocument(w, status, map[string]any{"filename": u.File, "digest": u.Digest, "size": u.Size, "receipt": receipt})
}

// releaseOf parses the address of a publication and checks the right to it.
func (s *server) releaseOf(r *http.Request, action string) (p addr.Provider, v addr.Version, repository string, g grant, err error) {
	source := r.PathValue("namespace") + "/" + r.PathValue("type")
	if g, err = s.allow(r, action, "provider", source); err != nil {
		return p, v, "", g, err
	}
	if p, err = addr.ParseProvider(source); err != nil {
		return p, v, "", g, unprocessable(err)
	}
	if v, err = addr.ParseVersion(r.PathValue("version")); err != nil {
		return p, v, "", g, unprocessable(err)
	}
	return p, v, s.o.Layout.Provider(p), g, nil
}

// publishProvider makes a version of the uploaded files, with the same checks
// as `okara publish provider`. The server has no signing key, so the files
// include the signature of SHA256SUMS.
func (s *server) publishProvider(w http.ResponseWriter, r *http.Request) error {
	p, v, repository, g, err := s.releaseOf(r, "publish")
	if err != nil {
		return err
	}
	var in struct {
		Receipts []string `json:"receipts"`
		Keys     []string `json:"keys"`
		Extend   bool     `json:"extend"` // add platforms to a version that exists
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxProviderRequest)).Decode(&in); err != nil {
		return unprocessable(fmt.Errorf("read the request: %w", err))
	}
	if len(in.Receipts) == 0 || len(in.Receipts) > maxReceipts {
		return unprocessable(fmt.Errorf("%d receipts, want 1 to %d", len(in.Receipts), maxReceipts))
	}
	o := depot.ProviderOptions{Extend: in.Extend}
	if o.Annotations, err = origin(r, g); err != nil {
		return unprocessable(err)
	}
	for _, armor := range in.Keys {
		keys, err := signing.ParsePublicKeys([]byte(armor))
		if err != nil {
			return unprocessable(err)
		}
		o.Keys = append(o.Keys, keys...)
	}
	dir, err := os.MkdirTemp("", "okara-provider-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, receipt := range in.Receipts {
		if err := s.fetchUpload(r, dir, repository, receipt); err != nil {
			return err
		}
	}
	out, err := s.depot.PublishProvider(r.Context(), os.DirFS(dir), p, v, o)
	s.published(r, g.caller, "publish", "provider", p.String(), v.String(), out.Digest, err)
	if err != nil {
		return s.publishRefused(r, err)
	}
	s.store.changed(repository, out.Tag)
	return s.writePublished(w, r, out)
}

// fetchUpload puts an uploaded file where the checks of a release expect it.
func (s *server) fetchUpload(r *http.Request, dir, repository, receipt string) (err error) {
	u, err := s.links.readReceipt(receipt)
	if err != nil {
		return err
	}
	if u.Repository != repository {
		return unprocessable(fmt.Errorf("the receipt of %s belongs to another provider", u.File))
	}
	repo, err := s.o.Client.Repo(repository)
	if err != nil {
		return err
	}
	in, err := repo.Open(r.Context(), oci.Descriptor{Digest: u.Digest, Size: u.Size})
	if err != nil {
		return missing(err, "upload %s; send it again", u.File)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, u.File), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return unprocessable(fmt.Errorf("two receipts for %s", u.File))
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// upload is what a receipt says.
type upload struct {
	Repository string        `json:"r"`
	File       string        `json:"f"`
	Digest     digest.Digest `json:"d"`
	Size       int64         `json:"s"`
	Expires    int64         `json:"e"`
}

// receipt returns "<kid>.<content>.<mac>".
func (l *links) receipt(u upload) (string, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return "", err
	}
	content := base64.RawURLEncoding.EncodeToString(b)
	k := l.keys[0]
	return k.ID + "." + content + "." + k.mac(receiptDomain, k.ID, content), nil
}

// readReceipt checks a receipt; nothing in it is read before its signature
// holds.
func (l *links) readReceipt(receipt string) (upload, error) {
	forged := unprocessable(errors.New("a receipt is not valid; upload the file again"))
	part := strings.Split(receipt, ".")
	if len(part) != 3 {
		return upload{}, forged
	}
	for _, k := range l.keys {
		if k.ID != part[0] || !hmac.Equal([]byte(k.mac(receiptDomain, k.ID, part[1])), []byte(part[2])) {
			continue
		}
		var u upload
		b, err := base64.RawURLEncoding.DecodeString(part[1])
		if err != nil || json.Unmarshal(b, &u) != nil {
			return upload{}, forged
		}
		if l.now().Unix() >= u.Expires {
			return upload{}, unprocessable(fmt.Errorf("the receipt of %s expired at %s; upload the file again",
				strconv.Quote(u.File), time.Unix(u.Expires, 0).UTC().Format(time.RFC3339)))
		}
		return u, nil
	}
	return upload{}, forged
}
