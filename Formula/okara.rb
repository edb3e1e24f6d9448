# SPDX-License-Identifier: Apache-2.0
# brew tap seed-141914ff/okara https://github.com/seed-141914ff/okara
# brew install --HEAD seed-141914ff/okara/okara
class Okara < Formula
  desc "Modules, providers and state of OpenTofu and Terraform in an OCI registry"
  homepage "https://github.com/seed-141914ff/okara"
  license "Apache-2.0"
  url "https://github.com/seed-141914ff/okara.git", tag: "v0.1.0"
  head "https://github.com/seed-141914ff/okara.git", branch: "main"

  depends_on "go" => :build

  def install
    system "go", "build", "-buildvcs=true", *std_go_args(ldflags: "-s -w -X github.com/seed-141914ff/okara/internal/buildinfo.release=v#{version}"), "./cmd/okara"
    generate_completions_from_executable(bin/"okara", "completion")
    system bin/"okara", "man", "man1"
    man1.install Dir["man1/*.1"]
  end

  service do
    run [opt_bin/"okara", "serve"]
    keep_alive true
    environment_variables XDG_DATA_HOME: var
  end

  test do
    assert_match "okara", shell_output("#{bin}/okara version")
  end
end
