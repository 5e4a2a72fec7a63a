# Two commands matter: `make book` and `make test`. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN  := $(VENV)/bin
JOBS ?= 2
PORT ?= 8000
# Every extra that the two commands need; one environment serves both.
EXTRAS := book,test,train
# torch comes first and pinned: a bare range may pull another CUDA build of several GB.
# CPU only on Linux: make TORCH_ARGS="--index-url https://download.pytorch.org/whl/cpu" book
TORCH ?= $(shell grep '^torch==' constraints.txt)
TORCH_ARGS ?=
# `CONSTRAINTS=` (empty) installs the newest releases that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
# Two processes on the same cores: libgomp's spinning threads make a loop over time 300 times slower.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export COMPANION_DEVICE ?= cpu

STAMP    := _build/.chapters-$(COMPANION_DEVICE)
START    := $(shell date +%s)
comma     := ,
took      = printf '   %s: %s s\n' "$(1)" $$(( $$(date +%s) - $(2) ))
say       = printf '\n== %s\n' "$(1)"
CHAPTERS := $(sort $(wildcard book/*.ipynb))
# What a chapter's outputs depend on: its own cells, the package with its data, recorded numbers.
SOURCES  := $(shell find companion -name '*.py' -o -path '*/data/files/*' -type f 2>/dev/null) \
            $(wildcard book/*.yml book/studies/*.json book/checkpoints/*.safetensors) conftest.py
# Named one by one: an environment may lie in the folder too (make VENV=elsewhere).
PYTHON   := book companion tests tools conftest.py
STUDIES  := $(wildcard book/studies/*.py)
PYTEST   := $(BIN)/python -m pytest -q
NBVAL    := $(PYTEST) --nbval --nbval-current-env --nbval-cell-timeout 300 -n $(JOBS) --dist loadfile
# pip reports each file that it passes over when it looks into a folder of wheels; nobody reads that.
quiet     = 2> >(grep -v 'is ignored' >&2 || true)

.PHONY: help
help: ## list the targets
	@echo 'make TARGET, where TARGET is one of'
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

.PHONY: book
book: $(STAMP) ## set up, execute every chapter, build the site with warnings as errors
	@$(call say,Building the site)
	@t=$$(date +%s); rm -rf _build/html _build/.doctrees; $(BUILD_SITE); $(call took,site,$$t)
	@$(CHAPTERS_VERDICT) || printf '\nWARNING: some outputs differ from the stored ones (above, and _build/chapters.log).\nThe book shows what this machine computed; make test fails.\n'
	@printf '\n'; $(call took,make book,$(START))
	@printf '\nThe book is at file://%s/_build/html/index.html (or: make serve)\n' "$(CURDIR)"
# Without rm -rf edited styles and pages of dropped sources stay as they were; --all for the same reason.
BUILD_SITE = $(BIN)/jupyter-book build -q . -W -n --keep-going --all > _build/site.log 2>&1 || { cat _build/site.log; exit 1; }
CHAPTERS_VERDICT = grep -qx 0 $(STAMP)

.PHONY: test
test: lint $(STAMP) ## lint, types, spelling, chapters (strict nbval), site, pages in Chromium, unit tests, doctests
	@$(call say,Chapters: outputs against the stored ones (last execution))
	@$(CHAPTERS_VERDICT) || { tail -n 80 _build/chapters.log; rm -f $(STAMP); \
	  echo 'nbval failed (above; whole report in _build/chapters.log)'; exit 1; }
	@tail -n 1 _build/chapters.log
	@$(call say,Building the site)
	@t=$$(date +%s); rm -rf _build/html _build/.doctrees; $(BUILD_SITE); $(call took,site,$$t)
	@$(call say,Unit tests$(comma) doctests$(comma) and every page in Chromium)
	@$(BIN)/python tools/chromium.py >/dev/null || [ -n "$${COMPANION_BROWSER:-}" ] || echo '   Left out: the pages in a browser.'
	@COMPANION_SITE=_build/html $(PYTEST) -n $(JOBS) --doctest-modules companion tests
	@printf '\n'; $(call took,make test,$(START))

.PHONY: serve
serve: free-port book ## build the book, then open it on 127.0.0.1 (PORT=8000)
	@url=http://127.0.0.1:$(PORT); echo "$$url (Ctrl-C stops)"; \
	if [ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] || [ "$$(uname)" = Darwin ]; then \
	  (sleep 1; $(BIN)/python -m webbrowser -t "$$url" >/dev/null 2>&1 || true) & fi; \
	exec $(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 -d _build/html

free-port: $(VENV)/.ok
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT)))' 2>/dev/null || { echo 'port $(PORT) is in use: make PORT=8001 serve'; exit 1; }

.PHONY: lab
lab: $(VENV)/.ok ## open the chapters in JupyterLab (installs it into the environment)
	$(BIN)/python -m pip install -q $(addprefix -c ,$(CONSTRAINTS)) jupyterlab $(quiet)
	cd book && exec $(abspath $(BIN))/python -m jupyterlab

.PHONY: chapters
chapters: $(STAMP) ## execute every chapter once, under strict nbval
	@$(CHAPTERS_VERDICT) || { rm -f $(STAMP); exit 1; }

# Every chapter runs ONCE, under nbval; conftest.py writes what nbval saw into the cache from which the
# book is built. jupyter-cache notices edited cells, not an edited package: hence the prerequisites, and
# a fresh cache. The stamp holds nbval's exit code: a reader gets a book even where a number differs.
$(STAMP): $(VENV)/.ok $(SOURCES) $(CHAPTERS)
	@mkdir -p _build; rm -rf _build/.jupyter_cache _build/.doctrees _build/.chapters-*
	@$(call say,Executing $(words $(CHAPTERS)) chapters)
	@t=$$(date +%s); code=0; \
	if [ -n "$(CHAPTERS)" ]; then BOOK_CACHE="$(CURDIR)/_build/.jupyter_cache" $(NBVAL) $(CHAPTERS) 2>&1 \
	  | tee _build/chapters.log || code=$$?; else echo 'no chapter yet' > _build/chapters.log; fi; \
	echo $$code > $@; $(call took,chapters,$$t)

.PHONY: refresh
refresh: $(VENV)/.ok ## execute the notebooks and store their outputs in normal form (NB="book/…")
	$(BIN)/python tools/refresh.py $(or $(NB),$(CHAPTERS))

.PHONY: studies
studies: $(VENV)/.ok ## rerun every study in book/studies/ and rewrite its JSON (long; all cores)
	@for s in $(STUDIES); do $(call say,$$s); t=$$(date +%s); \
	  OMP_NUM_THREADS=$$(getconf _NPROCESSORS_ONLN) $(BIN)/python $$s; $(call took,$$s,$$t); done

.PHONY: gpu
gpu: $(VENV)/.ok ## chapters and tests on a GPU (COMPANION_DEVICE=cuda)
	@$(BIN)/python -c 'import sys, torch; torch.cuda.is_available() or sys.exit("make gpu: torch %s sees no CUDA device (torch.cuda.is_available() is false): it needs an NVIDIA GPU, its driver and a CUDA build of torch" % torch.__version__)'
	COMPANION_DEVICE=cuda $(NBVAL) $(CHAPTERS)
	COMPANION_DEVICE=cuda $(PYTEST) -n $(JOBS) --doctest-modules companion tests

.PHONY: lint
lint: $(VENV)/.ok ## ruff, mypy, codespell, normal form of the notebooks, workflows
	@$(call say,Lint)
	@t=$$(date +%s); bad=0; \
	$(BIN)/ruff check -q $(PYTHON) || bad=1; \
	$(BIN)/ruff format -q --check --exclude "*.ipynb" $(PYTHON) || bad=1; \
	$(BIN)/mypy --no-error-summary companion || bad=1; \
	$(BIN)/codespell $(PYTHON) $(wildcard *.md *.yml *.toml *.cff .github/workflows/*.yml) Makefile || bad=1; \
	$(if $(CHAPTERS),$(BIN)/python tools/refresh.py --check $(CHAPTERS) || bad=1;) \
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml || bad=1; \
	$(call took,lint,$$t); exit $$bad

.PHONY: unit
unit: $(VENV)/.ok ## unit tests and doctests alone
	$(PYTEST) -n $(JOBS) --doctest-modules companion tests

# `make test` does this as well where Chromium is installed; here it must be.
.PHONY: browser
browser: can-browse book ## every page and every live picture in headless Chromium: desktop, phone, dark
	@$(call say,Every page in Chromium)
	COMPANION_SITE=_build/html COMPANION_BROWSER=1 $(PYTEST) -n $(JOBS) tests/browser

# Beside the two commands, which do not need it.
.PHONY: pdf
pdf: can-browse $(STAMP) ## the whole book as _build/book.pdf (needs Chromium)
	@$(call say,Building the book as one page)
	@trap 'rm -f conf.py' EXIT; $(BIN)/jupyter-book config sphinx . >/dev/null; rm -rf _build/print; \
	PYTHONPATH=book/_ext $(BIN)/sphinx-build -q --keep-going -b singlehtml -d _build/.doctrees-print \
	  -D nb_execution_cache_path=_build/.jupyter_cache . _build/print
	@mv _build/print/book/intro.html _build/print/index.html
	@$(call say,Printing it)
	@t=$$(date +%s); $(BIN)/python tools/pdf.py _build/print _build/book.pdf; $(call took,pdf,$$t)
# first of all: a browser that is missing is told before the chapters have run
can-browse: $(VENV)/.ok
	@$(BIN)/python tools/chromium.py >/dev/null

.PHONY: coverage
coverage: $(VENV)/.ok ## unit tests with the package's coverage
	$(PYTEST) -n $(JOBS) --cov=companion --cov-report=term-missing tests

# Jupyter Book 1 is in maintenance. This is the way out of it, kept passable.
.PHONY: sphinx
sphinx: $(STAMP) ## the same book by plain Sphinx, without Jupyter Book's command
	@trap 'rm -f conf.py' EXIT; $(BIN)/jupyter-book config sphinx . >/dev/null; \
	PYTHONPATH=book/_ext $(BIN)/sphinx-build -q -W -n --keep-going -b html -d _build/.doctrees-sphinx \
	  -D nb_execution_cache_path=_build/.jupyter_cache . _build/sphinx
	@echo '_build/sphinx/index.html'

.PHONY: links
links: $(STAMP) ## ask every outside address of the book (needs a network)
	$(BIN)/jupyter-book build -q . --builder linkcheck --path-output _build/links

.PHONY: lock
lock: $(VENV)/.ok ## rewrite constraints.txt from what is installed (after `make test` passed)
	$(BIN)/python tools/constraints.py > _build/constraints.new
	mv _build/constraints.new constraints.txt; touch $(VENV)/.ok

.PHONY: setup
setup: $(VENV)/.ok ## the virtual environment alone

# Python 3.11 to 3.13 that really starts (a pyenv shim may not) and can make an environment.
PYTHONS ?= 3.11, 3.12 or 3.13
FITS := import sys, venv, ensurepip; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHONS)")
$(VENV)/.ok: pyproject.toml $(wildcard $(CONSTRAINTS))
	@$(call say,Setting up $(VENV))
	@t=$$(date +%s); \
	if ! $(BIN)/python -c '$(FITS)' >/dev/null 2>&1; then \
	  found=; for p in $(or $(PY),python3 python3.13 python3.12 python3.11); do \
	    if $$p -c '$(FITS)' >/dev/null 2>&1; then found=$$p; break; fi; done; \
	  if [ -z "$$found" ]; then echo 'make: no Python $(PYTHONS) with venv found (tried: $(or $(PY),python3, python3.13, python3.12, python3.11)).' >&2; \
	    echo 'Install one (Debian, Ubuntu: apt install python3-venv), or name it: make PY=/path/to/python3.12 book' >&2; exit 1; fi; \
	  echo "   $$($$found --version) ($$found)"; $$found -m venv $(VENV); fi; \
	echo '   torch'; $(BIN)/python -m pip install -q $(TORCH_ARGS) "$(TORCH)" $(quiet); \
	echo '   the package and the extras $(EXTRAS)'; \
	$(BIN)/python -m pip install -q $(addprefix -c ,$(CONSTRAINTS)) -e ".[$(EXTRAS)]" $(quiet); \
	touch $@; $(call took,setup,$$t)

# torchtext's last release loads with torch 2.3 alone, and torch 2.3 has no wheels for Python 3.13.
TORCHTEXT_VENV ?= .venv-torchtext
TORCHTEXT_MAKE  = $(MAKE) --no-print-directory VENV=$(TORCHTEXT_VENV) EXTRAS=$(EXTRAS),torchtext \
  TORCH=torch==2.3.1 PYTHONS='3.11 or 3.12' CONSTRAINTS=$(if $(CONSTRAINTS),_build/constraints-torchtext.txt)
TEXT_CHAPTERS   = $(shell grep -lE 'basic_english|build_vocab_from_iterator|Vocab\b' $(CHAPTERS))
.PHONY: torchtext
torchtext: _build/constraints-torchtext.txt ## ours against torchtext 0.18, unit tests and text chapters in torch 2.3
	@$(TORCHTEXT_MAKE) $(TORCHTEXT_VENV)/.ok
	@$(TORCHTEXT_MAKE) beside-torchtext
	@printf '\n'; $(call took,make torchtext,$(START))
# Where torchtext cannot be imported its tests would be skipped: hence the import.
beside-torchtext:
	@$(call say,companion.data against torchtext)
	@$(BIN)/python -W ignore -c 'import torch, torchtext.datasets, torchdata, portalocker; print("   torch", torch.__version__, " torchtext", torchtext.__version__)'
	@t=$$(date +%s); $(PYTEST) tests/data/test_torchtext.py; $(call took,comparison,$$t)
	@$(call say,Unit tests and doctests)
	@t=$$(date +%s); $(PYTEST) -n $(JOBS) --doctest-modules companion tests --ignore tests/data/test_torchtext.py; $(call took,unit tests,$$t)
	@$(call say,Chapters: $(notdir $(TEXT_CHAPTERS)))
	@t=$$(date +%s); $(NBVAL) $(TEXT_CHAPTERS); $(call took,chapters,$$t)
# the proven versions, but for torch, what it brings along and what wants numpy 2; of these, bounds spare
# pip a search of many minutes
_build/constraints-torchtext.txt: constraints.txt Makefile
	@mkdir -p _build; grep -vE '^(torch|numpy|pandas|ml-dtypes|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==' $< > $@
	@printf '%s\n' 'numpy<2' 'pandas<3' 'ml-dtypes<0.6' >> $@

# Layers of other libraries in an environment of their own: `make test` neither needs nor sees them.
PEERS_VENV ?= .venv-peers
PEERS_MAKE  = $(MAKE) --no-print-directory VENV=$(PEERS_VENV) EXTRAS=test,peers
# One or two files of each are read; what the rest of it asks for (fairscale, a compiler) is not needed.
PEERS_ALONE = rwkv==0.8.32 torchscale==0.3.0 xlstm==2.0.6
.PHONY: peers
peers: ## our layers against those of transformers, mambapy, fla and others, weights mapped
	@$(PEERS_MAKE) $(PEERS_VENV)/.ok
	@$(PEERS_MAKE) beside-peers
	@printf '\n'; $(call took,make peers,$(START))
beside-peers:
	@$(call say,Ours beside the same layer of other libraries)
	@$(BIN)/python -m pip install -q --no-deps $(PEERS_ALONE) $(quiet)
	@COMPANION_PEERS=1 HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES= $(PYTEST) tests/peers

.PHONY: clean
clean: ## remove what was built (the environment stays)
	rm -rf _build conf.py .pytest_cache .mypy_cache .ruff_cache .hypothesis
