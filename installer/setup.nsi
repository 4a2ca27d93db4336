; Upreel's setup for one user, without administrator rights. build_setup.py compiles it and defines
; VERSION, PAYLOAD, FILES and so on; setup_lib.nsh has the shared functions, setup_text.nsh the texts.
;
; Switches (may be quoted as a whole or after the "="):
;   /S              silent: no questions, no window
;   /DIR=FOLDER     target folder; may have spaces and any letters
;   /UPDATE         no questions, shows the progress, waits for Upreel to end, starts it again
;   /CLOSE          with /S: closes a running Upreel, as its window's X does
;   /WAIT=SECONDS   with /S: how long to wait for its end; default 10
;   /RUN            with /S: starts Upreel at the end
;   /STARTMENU=0|1 /DESKTOP=0|1 /OPENWITH=0|1 /PATH=0|1   components; default: as installed, at
;                   first 1 0 1 0
;   /LANG=en|zh     language of the pages; default: Windows' language
; of uninstall.exe: /S, /CLOSE, /WAIT, /LANG, and
;   /PURGE          with /S: also removes models, NVIDIA runtimes, settings and unfinished jobs
;
; Exit statuses: 0 done, 1 cancelled, 2 the setup is damaged or was stopped, 10 Upreel is running,
; 11 the folder has other files, 12 too little space, 13 the folder cannot be written, 14 no usable
; path, 15 another setup is running, 16 Windows is too old, 17 a file could not be replaced or removed
;
; Everything is unpacked into ~upreel-new below the folder; then the files of the previous version are
; moved to ~upreel-old and the new ones to their final paths. If a step fails, all files are moved back
; and the previous version works again. uninstall.files lists the files of a version (+folder =file
; -folder, a line each); the setup touches no other file in the folder.

Unicode true
Target amd64-unicode
RequestExecutionLevel user
ManifestSupportedOS Win10
ManifestDPIAware true
ManifestLongPathAware true
CRCCheck force
AllowSkipFiles off
SetOverwrite on
!ifdef FAST
  SetCompressor /FINAL zlib
!else
  SetCompressor /FINAL /SOLID lzma
  SetCompressorDictSize 64
!endif

!include MUI2.nsh
!include FileFunc.nsh
!include LogicLib.nsh
!include nsDialogs.nsh
!include Sections.nsh
!include WinVer.nsh
!include x64.nsh

!define LIST "uninstall.files"
!define UNINSTALLER "uninstall.exe" ; the program searches for unins*.exe
!define NEW "~upreel-new"
!define OLD "~upreel-old"
!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel"
!define CLASSES "Software\Classes"
!define GPU_KEY "Software\Microsoft\DirectX\UserGpuPreferences"
!define OLDEST_BUILD 17763 ; Windows 10 1809, as Qt needs

Name "Upreel"
Caption "$(CAPTION)"
UninstallCaption "$(UNCAPTION)"
BrandingText "Upreel ${VERSION}"
OutFile "${OUTFILE}"
InstallDir "$LOCALAPPDATA\Programs\Upreel"
InstallDirRegKey HKCU "${UNINSTALL_KEY}" "InstallLocation"
ShowInstDetails hide
ShowUninstDetails hide
!ifdef SIGN
  !uninstfinalize '${SIGN} "%1"' = 0
!endif

ReserveFile "${FILES}" ; before the payload, which would otherwise be unpacked to reach it

Var Folder     ; that EnsureClosed and FindPrograms search
Var From       ; of MoveListed
Var To
Var ListFile   ; of MoveListed and DeleteListed
Var Failed     ; path of a file that could not be moved or removed
Var Status     ; exit status of a failure; 0 without one
Var Problem    ; its text
Var Mode       ; "ask", "silent" or "update"
Var Closes     ; close a running program
Var Wait       ; s
Var RunsAfter
Var Purges
Var Previous   ; folder of the installed version, or empty
Var PreviousVersion ; text of the welcome page about it
Var Phase      ; 0 nothing done, 1 unpacking, 2 moving old files away, 3 moving new files in, 4 done
Var IsFresh    ; the folder had no files of Upreel
Var AddStartMenu ; chosen components
Var AddDesktop
Var AddOpenWith
Var AddPath
Var PathFolder ; of UserPath
Var PathChange ; of UserPath: "", "add" or "remove"
Var Boxes      ; vertical position on the uninstaller's page
Var ModelsBox
Var RuntimesBox
Var SettingsBox

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_HEADERIMAGE
!define MUI_HEADERIMAGE_RIGHT
!define MUI_HEADERIMAGE_BITMAP "${PICTURES}/header.bmp"
!define MUI_HEADERIMAGE_BITMAP_STRETCH AspectFitHeight
!define MUI_HEADERIMAGE_UNBITMAP "${PICTURES}/header.bmp"
!define MUI_HEADERIMAGE_UNBITMAP_STRETCH AspectFitHeight
!define MUI_WELCOMEFINISHPAGE_BITMAP "${PICTURES}/side.bmp"
!define MUI_UNWELCOMEFINISHPAGE_BITMAP "${PICTURES}/side.bmp"
!define MUI_ABORTWARNING
!define MUI_COMPONENTSPAGE_SMALLDESC

!macro SKIPPED_IN_UPDATE
  !define MUI_PAGE_CUSTOMFUNCTION_PRE SkipInUpdate
!macroend

!insertmacro SKIPPED_IN_UPDATE
!define MUI_WELCOMEPAGE_TITLE "$(WELCOME_TITLE)"
!define MUI_WELCOMEPAGE_TEXT "$(WELCOME_TEXT)"
!insertmacro MUI_PAGE_WELCOME
!insertmacro SKIPPED_IN_UPDATE
!define MUI_PAGE_HEADER_TEXT "$(LICENCE_TITLE)"
!define MUI_PAGE_HEADER_SUBTEXT "$(LICENCE_SUBTEXT)"
!define MUI_LICENSEPAGE_TEXT_TOP "$(LICENCE_TOP)"
!define MUI_LICENSEPAGE_TEXT_BOTTOM "$(LICENCE_BOTTOM)"
!define MUI_LICENSEPAGE_BUTTON "$(LICENCE_BUTTON)"
!insertmacro MUI_PAGE_LICENSE "$(LICENCE_FILE)"
!insertmacro SKIPPED_IN_UPDATE
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro SKIPPED_IN_UPDATE
!define MUI_PAGE_CUSTOMFUNCTION_LEAVE LeaveFolderPage
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro SKIPPED_IN_UPDATE
!define MUI_FINISHPAGE_TEXT "$(FINISH_TEXT)"
!define MUI_FINISHPAGE_RUN "$INSTDIR\upreel.exe"
!insertmacro MUI_PAGE_FINISH

!define MUI_PAGE_CUSTOMFUNCTION_LEAVE un.LeaveConfirmPage
!insertmacro MUI_UNPAGE_CONFIRM
UninstPage custom un.DataPage un.LeaveDataPage
!insertmacro MUI_UNPAGE_INSTFILES

!insertmacro MUI_LANGUAGE English
!insertmacro MUI_LANGUAGE SimpChinese
!include setup_text.nsh
!include "${TYPES}" ; EACH_FILM_TYPE, by build_setup.py from the types that the program opens
!include setup_lib.nsh
!insertmacro SHARED ""
!insertmacro SHARED "un."

VIProductVersion "${VERSION4}"
VIAddVersionKey /LANG=${LANG_ENGLISH} ProductName "Upreel"
VIAddVersionKey /LANG=${LANG_ENGLISH} ProductVersion "${VERSION}"
VIAddVersionKey /LANG=${LANG_ENGLISH} FileVersion "${VERSION}"
VIAddVersionKey /LANG=${LANG_ENGLISH} FileDescription "Upreel Setup"
VIAddVersionKey /LANG=${LANG_ENGLISH} CompanyName "The Upreel developers"
VIAddVersionKey /LANG=${LANG_ENGLISH} LegalCopyright "The Upreel developers"

Section "!Upreel" PART_PROGRAM
  SectionIn RO
  Call CheckFolder
  ${If} $Status = 0
    Call CloseAll
  ${EndIf}
  Call StopIfFailed
  Call ClaimFolder
  Call StopIfFailed
  StrCpy $Phase 1
  SetOutPath "$INSTDIR\${NEW}"
  SetDetailsPrint textonly
  File /r "${PAYLOAD}"
  SetOutPath "$INSTDIR"
  DetailPrint "$(MOVING)"
  SetDetailsPrint none
  Call ReplaceFiles
  Call StopIfFailed
  Call WriteEntry
  SetDetailsPrint both
SectionEnd

Section "$(PART_STARTMENU)" PART_STARTMENU
  CreateShortCut "$SMPROGRAMS\Upreel.lnk" "$INSTDIR\upreel.exe"
SectionEnd

Section /o "$(PART_DESKTOP)" PART_DESKTOP
  CreateShortCut "$DESKTOP\Upreel.lnk" "$INSTDIR\upreel.exe"
SectionEnd

Section "$(PART_OPENWITH)" PART_OPENWITH
  !insertmacro OPENER "Applications\upreel.exe"
  WriteRegStr HKCU "${CLASSES}\Applications\upreel.exe" "FriendlyAppName" "Upreel"
  WriteRegStr HKCU "${CLASSES}\Upreel.Film" "" "$(KIND_FILM)"
  !insertmacro OPENER "Upreel.Film"
  WriteRegStr HKCU "${CLASSES}\Upreel.Latent" "" "$(KIND_LATENT)"
  !insertmacro OPENER "Upreel.Latent"
  !insertmacro EACH_FILM_TYPE OPENED_BY Upreel.Film
  !insertmacro OPENED_BY .latent Upreel.Latent
SectionEnd

Section /o "$(PART_PATH)" PART_PATH
  StrCpy $PathFolder "$INSTDIR\bin"
  StrCpy $PathChange "add"
  Call UserPath
  Pop $0
SectionEnd

Section -RefreshExplorer
  ${RefreshShellIcons}
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_PROGRAM} $(ABOUT_PROGRAM)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_STARTMENU} $(ABOUT_STARTMENU)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_DESKTOP} $(ABOUT_DESKTOP)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_OPENWITH} $(ABOUT_OPENWITH)
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_PATH} $(ABOUT_PATH)
!insertmacro MUI_FUNCTION_DESCRIPTION_END

Section Uninstall
  StrCpy $Folder $INSTDIR
  Call un.EnsureClosed
  Call un.StopIfFailed
  SetOutPath $TEMP ; a working folder cannot be removed
  SetDetailsPrint none
  File "/oname=$PLUGINSDIR\own.files" "${FILES}"
  StrCpy $From $INSTDIR
  StrCpy $ListFile "$PLUGINSDIR\own.files"
  Call un.DeleteListed
  StrCpy $ListFile "$INSTDIR\${LIST}" ; longer after an interrupted setup
  Call un.DeleteListed
  !insertmacro REMOVE_TREE un. "$INSTDIR\${NEW}"
  !insertmacro REMOVE_TREE un. "$INSTDIR\${OLD}"
  Delete "$INSTDIR\${LIST}"
  Delete "$INSTDIR\${UNINSTALLER}"
  RMDir "$INSTDIR"
  ReadRegStr $0 HKCU "${UNINSTALL_KEY}" "InstallLocation"
  ${If} $0 == $INSTDIR ; otherwise the entry belongs to another copy
  ${OrIf} $0 == ""
    Call un.Unregister
    DeleteRegKey HKCU "${UNINSTALL_KEY}"
    Call un.RemoveData
  ${EndIf}
  Call un.RemoveProgramValues
  SetDetailsPrint both
  ${RefreshShellIcons}
  ${If} $Failed != ""
    StrCpy $Status 17
    StrCpy $Problem "$(PROBLEM_LEFT)"
    Call un.StopIfFailed
  ${EndIf}
  ${If} ${FileExists} "$INSTDIR\*.*"
    DetailPrint "$(KEPT_FILES)"
  ${EndIf}
SectionEnd

!include setup_install.nsh
!include setup_remove.nsh
